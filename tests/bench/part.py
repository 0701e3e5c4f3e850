"""One bench in a process of its own: `python -m tests.bench.part MODULE FILE`, told what to measure in a line of JSON.

So a bench that dies, hangs or needs a lot of memory takes no other with it. It ends, with its servers, on SIGTERM, and
when its standard input does, which happens when the process that started it dies.
"""

from __future__ import annotations

import importlib
import json
import logging
import os
import signal
import sys
import threading
import traceback
import warnings
from pathlib import Path
from typing import Any

from tests.bench import results
from tests.bench.report import Report, one_line, wide_console

INTERRUPTED = 130


def main() -> int:
    module, file = sys.argv[1], Path(sys.argv[2])
    told = json.loads(sys.stdin.readline())
    signal.signal(signal.SIGTERM, _interrupt)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that started this one
    threading.Thread(target=_end_with_parent, daemon=True).start()
    found = results.read(file)
    try:
        bench: Any = importlib.import_module(module)
        report = Report(
            told["bench"],
            found,
            path=file,
            only=told["cases"],
            subjects=told["subjects"],
            rounds=told["rounds"],
            console=wide_console(),
        )
        bench.run(report)
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:
        traceback.print_exc()
        found.failures[told["bench"]] = one_line(error)
        found.write(file)
        return 1
    return 0


def _interrupt(number: int, _: object) -> None:
    """Once: what is cleared away then must not be interrupted again. Spark would lament at length."""
    signal.signal(number, signal.SIG_IGN)
    logging.disable()
    warnings.simplefilter("ignore")
    raise KeyboardInterrupt


def _end_with_parent() -> None:
    while os.read(sys.stdin.fileno(), 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main())
