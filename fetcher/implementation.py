"""Which reader of records is in use: the compiled one, or its twin in Python where nobody could compile it.

Both give the same messages and raise the same errors. ZKCONSUMER_PURE_PYTHON=1 in the environment asks for the twin.
"""

from __future__ import annotations

import os
from typing import Final, Literal

PURE_PYTHON_VARIABLE = "ZKCONSUMER_PURE_PYTHON"


def _find() -> Literal["compiled", "pure"]:
    if os.environ.get(PURE_PYTHON_VARIABLE, "0") not in ("", "0"):
        return "pure"
    try:
        import fetcher._records  # noqa: F401
    except ImportError:
        return "pure"
    return "compiled"


IMPLEMENTATION: Final = _find()
