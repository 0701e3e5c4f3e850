"""Made-up histories of any size, as Parquet in the form of pipeline.histories, with faults planted at known rates.

Sixteen partitions, eight members, ten rebalances a run; DuckDB writes them, millions of rows a second.
"""

from __future__ import annotations

from pathlib import Path

import duckdb

PARTITIONS = 16
MEMBERS = 8
WINDOWS = 10  # ownership moves on at each one's beginning
SPAN_MS = 600_000
PAUSE_MS = 300  # of each move
FOLDERS = ("produced", "delivered", "committed", "owned", "paused", "event", "transaction", "load")

# One in so many offsets of a partition; coprime, so that they meet now and then.
LOST, DOUBLED, LATE, STRAY = 10_007, 5_003, 7_919, 20_011
LATE_MS, AGAIN_MS = 400, 700


def make_history(directory: Path, rows: int) -> None:
    """About so many records delivered. Everything follows from the numbers: two calls make the same."""
    offsets = rows // PARTITIONS
    window_ms = SPAN_MS // WINDOWS
    database = duckdb.connect()
    try:
        database.execute("set threads = 2; set preserve_insertion_order = false")
        for folder in FOLDERS:
            (directory / folder).mkdir(parents=True)
        database.execute(
            f"""create view made as select 'made up' as subject, 't' as topic, p::int as partition, o as "offset",
                (o * {SPAN_MS}) // {offsets} as time_ms, ((o * {SPAN_MS}) // {offsets}) // {window_ms} as w
                from range({PARTITIONS}) a(p), range({offsets}) b(o)"""
        )
        database.execute(
            f"""create view read as select subject, 'member-' || ((partition + w) % {MEMBERS}) as member, topic,
                partition, "offset", greatest(time_ms + 5, w * {window_ms} + case when w > 0 then {PAUSE_MS} else 0 end)
                as time_ms, "offset" as sequence from made where "offset" % {LOST} <> 11"""
        )
        again = f"""select * replace (time_ms + {AGAIN_MS} as time_ms, sequence + {offsets} as sequence)
                from read where "offset" % {DOUBLED} = 7"""
        tables = {
            "produced": 'select subject, topic, partition, "offset", time_ms from made',
            "delivered": f"""select * replace (
                case when "offset" % {STRAY} = 5 then 'stray' else member end as member,
                time_ms + case when "offset" % {LATE} = 3 then {LATE_MS} else 0 end as time_ms
                ) from read union all {again}""",
            "committed": f"""select 'made up' as subject, 't' as topic, p::int as partition, n * {offsets} // 60
                as "offset", n * {SPAN_MS} // 60 as time_ms, 'zookeeper' as store
                from range({PARTITIONS}) a(p), range(61) b(n)""",
            "owned": f"""select 'made up' as subject, 'member-' || ((p + w) % {MEMBERS}) as member, 't' as topic,
                p::int as partition, w * {window_ms} + case when w > 0 then {PAUSE_MS} else 0 end as from_ms,
                case when w = {WINDOWS - 1} then null else (w + 1) * {window_ms} end as until_ms
                from range({PARTITIONS}) a(p), range({WINDOWS}) b(w)""",
            "paused": "select '' as subject, '' as member, 0::bigint as from_ms, 0::bigint as until_ms limit 0",
            "event": "select '' as subject, '' as event, '' as member, 0::bigint as time_ms, '' as detail limit 0",
            "transaction": f"""select 'made up' as subject, n as zxid, 1::bigint as session,
                n * {SPAN_MS} // 10000 as time_ms, 'setData' as operation, '/consumers' as path
                from range(10000) a(n)""",
            "load": """select 'made up' as subject, n * 1000 as time_ms, n * 10 as packets, 5::bigint as watches,
                9::bigint as sessions from range(600) a(n)""",
        }
        for folder, query in tables.items():
            file = directory / folder / "part-0.parquet"
            database.execute(f"copy ({query}) to '{file}' (format parquet, compression zstd, row_group_size 1000000)")
    finally:
        database.close()
