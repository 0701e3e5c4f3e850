"""`make bench`: what things cost on this machine, as tables, for comparing. Run it on a quiet machine."""

from __future__ import annotations

from tests.bench import startup


def main() -> None:
    startup.main()


if __name__ == "__main__":
    main()
