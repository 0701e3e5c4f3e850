"""Broken message sets, for as long as one likes: `python -m tests.fuzz.fuzz_records [--seconds 180] [--seed N]`.

Each set is read by the compiled reader and by its twin in Python, which have to agree in every message, error and word.
A set on which they do not, or on which the process died, is left in `fuzz-failure.bin`. To catch reads past a buffer,
build it with the address sanitizer: docs/hot-path.md tells how.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from pathlib import Path

from fetcher import compression
from tests.twins import COMPILED, PURE, mutated, random_set, trace, with_right_checksums, within_an_answer

VECTORS = sorted((Path(__file__).parent.parent / "vectors" / "message-sets").glob("*.bin"))
FAILURE = Path("fuzz-failure.bin")
LARGEST_INSIDE = 1024 * 1024  # what a broken compressed set may become: here, memory is only time


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz.fuzz_records", description=(__doc__ or "").split(":")[0]
    )
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=None, help="to see the same sets again")
    parser.add_argument("--file", type=Path, help="a set that failed: compare the twins on it alone")
    arguments = parser.parse_args()
    if COMPILED is None:
        raise SystemExit("fetcher._records is not built: pip install -e . with a C compiler at hand")
    compression.LIMIT_BYTES, compression.LIMIT_RATIO = LARGEST_INSIDE, 1
    if arguments.file is not None:
        compare(arguments.file.read_bytes(), 0, 1 << 30)
    else:
        run(arguments.seconds, arguments.seed if arguments.seed is not None else random.SystemRandom().getrandbits(32))


def run(seconds: float, seed: int) -> None:
    """Until the time is over or the twins differ."""
    chance = random.Random(seed)
    stored = [file.read_bytes() for file in VECTORS]
    began_s, tried, messages = time.monotonic(), 0, 0
    print(f"seed {seed}", flush=True)
    while time.monotonic() - began_s < seconds:
        data = chance.choice(stored) if chance.random() < 0.1 else random_set(chance)
        if chance.random() < 0.95:
            data = mutated(chance, data)
        if chance.random() < 0.7:
            data = with_right_checksums(data)
        messages += compare(data, chance.choice([0, 0, 3, -10, 2**62]), chance.choice([1, 100, 1 << 30]))
        tried += 1
    print(f"{tried:,} sets with {messages:,} messages in {time.monotonic() - began_s:.0f} s: the twins agree")


def compare(data: bytes, consumed_offset: int, most_bytes: int) -> int:
    """The number of messages; SystemExit if the twins differ. A crash leaves the set behind as well."""
    FAILURE.write_bytes(data)
    compiled = trace(COMPILED, data, consumed_offset, most_bytes)
    pure = trace(PURE, data, consumed_offset, most_bytes)
    if compiled == pure:
        compiled = trace(COMPILED, within_an_answer(data), consumed_offset, most_bytes)
    if compiled != pure:
        for one, other in zip(compiled, pure, strict=False):
            if one != other:
                print(f"compiled: {one!r:.2000}\npure:     {other!r:.2000}", file=sys.stderr)
        raise SystemExit(f"the twins differ on {FAILURE} (from {consumed_offset}, up to {most_bytes} bytes)")
    FAILURE.unlink()
    return sum(isinstance(one, list) for one in pure)


if __name__ == "__main__":
    main()
