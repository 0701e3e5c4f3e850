"""What was wrong in a history, and what it cost: DataFrame in, DataFrame out (columns: see pipeline.histories).

Pure: nothing is read or written here, and every row found carries its evidence. docs/study.md has each definition in
words; it is the same for all subjects. Windows go over partitions, never over single offsets: at a hundred million rows
a shuffle on offsets takes twice as long.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

PARTITION = ("subject", "topic", "partition")
SLACK_MS = 100
QUIET_MS = 1000
AT_ONCE_MS = 500
BLOCK = 256  # offsets: fewer than that many gaps to compare with, and no long gap in too many pieces


# --- what must not happen ---


def lost(produced: DataFrame, delivered: DataFrame) -> DataFrame:
    """Runs of records that were acknowledged to the producer and handed to nobody."""
    bounds = produced.groupBy(*PARTITION).agg(F.min("offset").alias("lowest"), F.max("offset").alias("highest"))
    before = F.lag("offset").over(_by_offset())
    inside = delivered.select(
        *PARTITION, (before + 1).alias("first_missing"), (F.col("offset") - 1).alias("last_missing")
    ).where(F.col("first_missing") <= F.col("last_missing"))
    reached = delivered.groupBy(*PARTITION).agg(F.min("offset").alias("first"), F.max("offset").alias("last"))
    ends = bounds.join(reached, [*PARTITION], "left").select(
        *PARTITION,
        F.explode(
            F.array(
                F.struct("lowest", F.coalesce(F.col("first") - 1, F.col("highest")).alias("to")),
                F.struct((F.col("last") + 1).alias("lowest"), F.col("highest").alias("to")),
            )
        ).alias("gap"),
    )
    outside = ends.select(
        *PARTITION, F.col("gap.lowest").alias("first_missing"), F.col("gap.to").alias("last_missing")
    ).where(F.col("first_missing") <= F.col("last_missing"))
    # A gap is only a loss where something was produced into it: a transaction's marker takes an offset too. By blocks
    # of offsets, since a record that is compared with every gap of its partition costs more the longer the history is.
    blocks = F.sequence(_block("first_missing"), _block("last_missing"))
    gaps = F.broadcast(inside.unionByName(outside).withColumn("block", F.explode(blocks)))
    within = F.col("offset").between(F.col("first_missing"), F.col("last_missing"))
    return (
        produced.withColumn("block", _block("offset"))
        .join(gaps, [*PARTITION, "block"])
        .where(within)
        .groupBy(*PARTITION, "first_missing")
        .agg(
            F.min("offset").alias("first_offset"),
            F.max("offset").alias("last_offset"),
            F.count("*").alias("records"),
            F.min("time_ms").alias("produced_from_ms"),
            F.max("time_ms").alias("produced_until_ms"),
        )
        .drop("first_missing")
    )


def duplicated(delivered: DataFrame) -> DataFrame:
    """Each delivery of a record that had been delivered before, with that one."""
    return (
        delivered.withColumn("before", F.lag(F.struct("offset", "member", "time_ms")).over(_copies_together()))
        .where(F.col("before.offset") == F.col("offset"))
        .select(
            *PARTITION,
            "offset",
            F.col("before.member").alias("first_member"),
            F.col("before.time_ms").alias("first_ms"),
            F.col("member").alias("again_member"),
            F.col("time_ms").alias("again_ms"),
        )
    )


def reordered(delivered: DataFrame) -> DataFrame:
    """Each record delivered for the first time after a later one of its partition had been."""
    # Deliveries again are duplicates, however they are ordered.
    before = F.lag("offset").over(_copies_together())
    first = delivered.withColumn("before", before).where(F.coalesce(F.col("before") != F.col("offset"), F.lit(True)))
    earlier = _by_time().rowsBetween(Window.unboundedPreceding, -1)
    return (
        first.withColumn("reached", F.max(F.struct("offset", "member", "time_ms")).over(earlier))
        .where(F.col("reached.offset") > F.col("offset"))
        .select(
            *PARTITION,
            "member",
            "offset",
            "time_ms",
            F.col("reached.offset").alias("after_offset"),
            F.col("reached.member").alias("after_member"),
            F.col("reached.time_ms").alias("after_ms"),
        )
    )


def delivered_by_non_owner(delivered: DataFrame, owned: DataFrame, *, slack_ms: int = SLACK_MS) -> DataFrame:
    """Deliveries by a member that did not own the partition then, nor within `slack_ms`, and who did own it."""
    mine = F.broadcast(owned.select(*PARTITION, "member", "from_ms", "until_ms"))
    by_owner = (
        (F.col("d.member") == F.col("o.member"))
        & (F.col("d.time_ms") >= F.col("o.from_ms") - slack_ms)
        & (F.col("o.until_ms").isNull() | (F.col("d.time_ms") <= F.col("o.until_ms") + slack_ms))
    )
    wrong = delivered.alias("d").join(mine.alias("o"), _same_partition("d", "o") & by_owner, "left_anti")
    others = F.broadcast(owned.select(*PARTITION, F.col("member").alias("owner"), "from_ms", "until_ms"))
    then = (F.col("w.time_ms") >= F.col("o.from_ms")) & (
        F.col("o.until_ms").isNull() | (F.col("w.time_ms") < F.col("o.until_ms"))
    )
    return (
        wrong.alias("w")
        .join(others.alias("o"), _same_partition("w", "o") & then, "left")
        .select(*(f"w.{name}" for name in PARTITION), "w.member", "w.offset", "w.time_ms", "o.owner")
    )


def commits_going_back(committed: DataFrame) -> DataFrame:
    """Each commit of an offset below one that was stored for the partition before, in the same store."""
    earlier = (
        Window.partitionBy(*PARTITION, "store").orderBy("time_ms", "offset").rowsBetween(Window.unboundedPreceding, -1)
    )
    return (
        committed.withColumn("reached", F.max(F.struct("offset", "time_ms")).over(earlier))
        .where(F.col("reached.offset") > F.col("offset"))
        .select(
            *PARTITION,
            "store",
            "offset",
            "time_ms",
            F.col("reached.offset").alias("after_offset"),
            F.col("reached.time_ms").alias("after_ms"),
        )
    )


# --- what it cost ---


def pauses(delivered: DataFrame) -> DataFrame:
    """For each change of a partition's reader: from the last record of the old one to the first of the new."""
    return (
        delivered.withColumn("before", F.lag(F.struct("member", "offset", "time_ms")).over(_by_time()))
        .where(F.col("before.member") != F.col("member"))
        .select(
            *PARTITION,
            F.col("before.member").alias("old_member"),
            F.col("before.time_ms").alias("from_ms"),
            F.col("before.offset").alias("last_offset"),
            F.col("member").alias("new_member"),
            F.col("time_ms").alias("until_ms"),
            F.col("offset").alias("first_offset"),
            (F.col("time_ms") - F.col("before.time_ms")).alias("pause_ms"),
        )
    )


def handovers(all_pauses: DataFrame, *, at_once_ms: int = AT_ONCE_MS) -> DataFrame:
    """Of pauses(): without those of two members that read a partition at once, as a zombie and its successor do.

    There each record that comes from the other one looks like a change of readers. Left out is a change if one of the
    two was back less than `at_once_ms` later or had read less than that before; but no pause that long.
    """
    in_turn = Window.partitionBy(*PARTITION).orderBy("until_ms", "from_ms")
    before = F.lag(F.struct("old_member", "from_ms")).over(in_turn)
    after = F.lead(F.struct("new_member", "until_ms")).over(in_turn)
    had_read = (F.col("before.old_member") == F.col("new_member")) & (
        F.col("until_ms") - F.col("before.from_ms") < at_once_ms
    )
    is_back = (F.col("after.new_member") == F.col("old_member")) & (
        F.col("after.until_ms") - F.col("from_ms") < at_once_ms
    )
    at_once = F.coalesce(had_read, F.lit(False)) | F.coalesce(is_back, F.lit(False))
    return (
        all_pauses.withColumn("before", before)
        .withColumn("after", after)
        .where((F.col("pause_ms") >= at_once_ms) | ~at_once)
        .drop("before", "after")
    )


def waits(produced: DataFrame, delivered: DataFrame) -> DataFrame:
    """Of each record that was delivered: from its acknowledgement to its first delivery, which may come before."""
    made = produced.select(
        *PARTITION, "offset", "time_ms", F.lit(0).alias("late"), F.lit(None).cast("string").alias("member")
    )
    read = delivered.select(*PARTITION, "offset", "time_ms", F.lit(1).alias("late"), "member")
    in_turn = Window.partitionBy(*PARTITION).orderBy("offset", "late", "time_ms", "member")
    return (
        made.unionByName(read)
        .withColumn("before", F.lag(F.struct("offset", "late", "time_ms")).over(in_turn))
        .where((F.col("late") == 1) & (F.col("before.late") == 0) & (F.col("before.offset") == F.col("offset")))
        .select(
            *PARTITION,
            "offset",
            "member",
            F.col("before.time_ms").alias("produced_ms"),
            F.greatest(F.col("time_ms") - F.col("before.time_ms"), F.lit(0)).alias("wait_ms"),
        )
    )


def rebalances(owned: DataFrame, *, quiet_ms: int = QUIET_MS) -> DataFrame:
    """Windows in which ownership changed: from the first partition without an owner until all have one again.

    Windows less than `quiet_ms` apart are one rebalance. `partitions_stopped` lost their owner in it, even if they got
    the same one back; `partitions_moved` got another.
    """
    in_turn = Window.partitionBy(*PARTITION).orderBy("from_ms")
    known = owned.select(
        *PARTITION,
        "member",
        "from_ms",
        "until_ms",
        F.lag("member").over(in_turn).alias("before"),
        F.lag("until_ms").over(in_turn).alias("free_ms"),
        F.lead("from_ms").over(in_turn).alias("next_ms"),
    )
    begun = known.select(
        *PARTITION,
        F.least(F.coalesce("free_ms", "from_ms"), "from_ms").alias("free_ms"),
        F.col("from_ms").alias("taken_ms"),
        F.col("free_ms").isNotNull().alias("stops"),
        F.coalesce(F.col("before") != F.col("member"), F.lit(False)).alias("moves"),
    )
    given_up = known.where("until_ms is not null and next_ms is null").select(
        *PARTITION,
        F.col("until_ms").alias("free_ms"),
        F.col("until_ms").alias("taken_ms"),
        F.lit(True).alias("stops"),
        F.lit(False).alias("moves"),
    )
    in_order = Window.partitionBy("subject").orderBy("free_ms", "taken_ms", "topic", "partition")
    over_ms = F.max("taken_ms").over(in_order.rowsBetween(Window.unboundedPreceding, -1))
    opens = F.coalesce((F.col("free_ms") - over_ms > quiet_ms).cast("int"), F.lit(1))
    where = F.concat_ws("/", "topic", "partition")
    return (
        begun.unionByName(given_up)
        .withColumn("opens", opens)
        .withColumn("number", F.sum("opens").over(in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)))
        .groupBy("subject", "number")
        .agg(
            F.min("free_ms").alias("from_ms"),
            F.max("taken_ms").alias("until_ms"),
            (F.max("taken_ms") - F.min("free_ms")).alias("duration_ms"),
            F.count_distinct(F.when(F.col("stops"), where)).alias("partitions_stopped"),
            F.count_distinct(F.when(F.col("moves"), where)).alias("partitions_moved"),
        )
    )


def lag_over_time(produced: DataFrame, delivered: DataFrame, *, every_ms: int = 250) -> DataFrame:
    """At the end of each interval: how far the highest record delivered is behind the highest produced, all partitions.

    Needs no look at single records: of each interval and partition only the highest offset counts.
    """
    slot = F.floor(F.col("time_ms") / every_ms).cast("long").alias("slot")
    high = F.max("offset").alias("high")
    made = produced.groupBy(*PARTITION, slot).agg(high).withColumnRenamed("high", "made")
    read = delivered.groupBy(*PARTITION, slot).agg(high).withColumnRenamed("high", "read")
    start = produced.groupBy(*PARTITION).agg(F.min("offset").alias("lowest"))
    seen = made.join(read, [*PARTITION, "slot"], "full")
    span = seen.groupBy("subject").agg(F.min("slot").alias("first"), F.max("slot").alias("last"))
    grid = start.join(F.broadcast(span), "subject").select(
        *PARTITION, "lowest", F.explode(F.sequence("first", "last")).alias("slot")
    )
    so_far = Window.partitionBy(*PARTITION).orderBy("slot").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    behind = F.greatest(
        F.coalesce("made_yet", F.col("lowest") - 1) - F.coalesce("read_yet", F.col("lowest") - 1), F.lit(0)
    )
    return (
        grid.join(seen, [*PARTITION, "slot"], "left")
        .withColumn("made_yet", F.max("made").over(so_far))
        .withColumn("read_yet", F.max("read").over(so_far))
        .withColumn("behind", behind)
        .groupBy("subject", ((F.col("slot") + 1) * every_ms).alias("time_ms"))
        .agg(F.sum("behind").alias("lag"))
    )


def stalls(load: DataFrame, *, from_ms: int = QUIET_MS) -> DataFrame:
    """When nothing was heard of ZooKeeper for so long, which is asked ten times a second: the machine had no time."""
    before = F.lag("time_ms").over(Window.partitionBy("subject").orderBy("time_ms"))
    return (
        load.select("subject", before.alias("from_ms"), F.col("time_ms").alias("until_ms"))
        .withColumn("stall_ms", F.col("until_ms") - F.col("from_ms"))
        .where(F.col("stall_ms") >= from_ms)
    )


def commit_load(committed: DataFrame) -> DataFrame:
    """How many commits of a partition each store took, and how many a second of the time between first and last."""
    seconds = (F.max("time_ms") - F.min("time_ms")) / 1000
    return committed.groupBy("subject", "store").agg(
        F.count("*").alias("commits"),
        F.when(seconds > 0, F.count("*") / seconds).alias("commits_per_second"),
    )


def zookeeper_load(transactions: DataFrame) -> DataFrame:
    """How many of each kind of write ZooKeeper did."""
    return transactions.groupBy("subject", "operation").agg(F.count("*").alias("writes"))


def herd(
    rebalance_windows: DataFrame, transactions: DataFrame, load: DataFrame, *, margin_ms: int = QUIET_MS
) -> DataFrame:
    """The herd meter: what ZooKeeper had to do for each rebalance, from `margin_ms` before it to as long after."""
    window = F.broadcast(rebalance_windows.select("subject", "number", "from_ms", "until_ms"))
    near = F.col("time_ms").between(F.col("from_ms") - margin_ms, F.col("until_ms") + margin_ms)
    writes = (
        transactions.join(window, "subject").where(near).groupBy("subject", "number").agg(F.count("*").alias("writes"))
    )
    packets = (
        load.join(window, "subject")
        .where(near)
        .groupBy("subject", "number")
        .agg((F.max("packets") - F.min("packets")).alias("packets"), F.max("watches").alias("watches"))
    )
    return (
        rebalance_windows.join(writes, ["subject", "number"], "left")
        .join(packets, ["subject", "number"], "left")
        .fillna(0, ["writes", "packets", "watches"])
    )


def _block(offset: str) -> Column:
    return F.floor(F.col(offset) / BLOCK).cast("long")


def _by_offset() -> WindowSpec:
    return Window.partitionBy(*PARTITION).orderBy("offset")


def _copies_together() -> WindowSpec:
    return Window.partitionBy(*PARTITION).orderBy("offset", "time_ms", "member", "sequence")


def _by_time() -> WindowSpec:
    return Window.partitionBy(*PARTITION).orderBy("time_ms", "member", "sequence")


def _same_partition(left: str, right: str) -> Column:
    same = [F.col(f"{left}.{name}") == F.col(f"{right}.{name}") for name in PARTITION]
    return same[0] & same[1] & same[2]
