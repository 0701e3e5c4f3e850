"""The job of docs/receivers.md as a driver of its own, until its input ends: what foreachBatch leaves ends with it.

python -m tests.spark.page_job ZOOKEEPER TOPIC DIRECTORY
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from tests.spark.sessions import end, local_session

PAGE = Path(__file__).parents[2] / "docs" / "receivers.md"


def main(connect: str, topic: str, directory: str) -> None:
    spark = local_session()  # the page's getOrCreate() gets this one
    names: dict[str, Any] = {"connect": connect, "directory": directory}
    [block] = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    try:
        exec(compile(block.replace('"orders"', repr(topic)), str(PAGE), "exec"), names)
        sys.stdin.read()
        names["query"].stop()
    finally:
        end(spark)


if __name__ == "__main__":
    main(*sys.argv[1:])
