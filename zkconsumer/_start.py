"""Where the `zkconsumer` program begins: Ctrl-C is no trace either while the rest is still being loaded."""

from __future__ import annotations

INTERRUPTED = 130


def main() -> int:
    """As `python -m zkconsumer`."""
    try:
        from zkconsumer.__main__ import main as run

        return run()
    except KeyboardInterrupt:
        return INTERRUPTED
