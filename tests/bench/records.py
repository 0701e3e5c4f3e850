"""How fast records are decoded, broker and network apart: `python -m tests.bench.records [--rounds 9]`.

Million records of 100 bytes a second, checksums checked, values read, for each format and codec; the best round counts,
since whatever else the machine does only makes it slower.
"""

from __future__ import annotations

import argparse
import os
import random
import time

from rich.console import Console
from rich.table import Table

from tests.builders import Content, message_set
from tests.twins import COMPILED, FORMS, PURE

RECORDS = 9000  # about a megabyte, the default fetch size
IN_ONE_SET = 500


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.records", description=(__doc__ or "").split(":")[0])
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    table = Table(title=f"M records of 100 bytes a second, load {os.getloadavg()[0]:.1f}", title_justify="left")
    for column in ("format", "codec", "compiled", "pure", "compiled : pure"):
        table.add_column(column, justify="right")
    for magic, codec in FORMS:
        data = chunk(magic, codec)
        compiled = best(COMPILED, data, rounds) if COMPILED is not None else 0.0
        pure = best(PURE, data, max(1, rounds // 3))
        table.add_row(str(magic), codec, f"{compiled:.2f}", f"{pure:.2f}", f"{compiled / pure:.1f}")
    Console(highlight=False).print(table)


def chunk(magic: int, codec: str) -> bytes:
    """Values that compress to about half, as log lines do."""
    chance = random.Random(1)
    contents = [Content(n, None, chance.randbytes(40) + bytes(60), 1000 + n) for n in range(RECORDS)]
    sets = [contents[start : start + IN_ONE_SET] for start in range(0, RECORDS, IN_ONE_SET)]
    return b"".join(message_set(one, magic, codec) for one in sets)


def best(twin: object, data: bytes, rounds: int) -> float:
    fastest_s = min(seconds(twin, data) for _ in range(rounds))
    return RECORDS / fastest_s / 1e6


def seconds(twin: object, data: bytes) -> float:
    began_s = time.perf_counter()
    for message in twin.ByteBufferMessageSet(data):  # type: ignore[attr-defined]
        message.ensure_valid()
        _ = message.value
    return time.perf_counter() - began_s


if __name__ == "__main__":
    main()
