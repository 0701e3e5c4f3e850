"""What a user of the pipeline did wrong, told in one line."""

from __future__ import annotations

import sys

from fetcher.errors import KafkaException


class PipelineError(KafkaException):
    """The text says what is wrong, where, and what to do."""


class UnknownOption(PipelineError, ValueError):
    """An option that is not known, or a value that cannot be."""


class DataLost(PipelineError):
    """Records that were planned are no longer on the broker."""


def as_one_line(error: Exception) -> Exception:
    """The same error, shown by Spark without a stack.

    Spark shows what a Python process of its own writes about an exception: the whole stack, of which our user's mistake
    is the last line. Called only where the process ends with the error.
    """
    sys.tracebacklimit = 0
    return error.with_traceback(None)
