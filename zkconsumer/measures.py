"""Meters, histograms and timers (0.8: com.yammer.metrics.core), without its background thread.

Marking costs a few attribute operations; rates are brought up to date when somebody reads them. A mark is a single
`+=` on an attribute: CPython switches threads only between calls and loop turns, so none is lost.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Mapping

Clock = Callable[[], float]

TICK_S = 5.0
_SAMPLES = 1028  # as many as Yammer keeps
_MINUTES = {"OneMinuteRate": 1, "FiveMinuteRate": 5, "FifteenMinuteRate": 15}
_QUANTILES = {
    "50thPercentile": 0.5,
    "75thPercentile": 0.75,
    "95thPercentile": 0.95,
    "98thPercentile": 0.98,
    "99thPercentile": 0.99,
    "999thPercentile": 0.999,
}


class Meter:
    """How many, and how many a second: on average and over the last 1, 5 and 15 minutes (exponentially weighted).

    With `read_count` it measures a number that somebody else counts up. With `parent` each mark counts there too.
    """

    __slots__ = (
        "_clock",
        "_counted",
        "_counted_before",
        "_parent",
        "_rates",
        "_read_count",
        "_started_s",
        "_ticked_s",
        "count",
    )

    def __init__(
        self,
        clock: Clock = time.monotonic,
        *,
        parent: Meter | None = None,
        read_count: Callable[[], int] | None = None,
    ) -> None:
        self.count = read_count() if read_count is not None else 0
        self._clock = clock
        self._parent = parent
        self._read_count = read_count
        self._started_s = self._ticked_s = clock()
        self._counted = self._counted_before = self.count
        self._rates: dict[str, float] = {}

    def mark(self, number: int = 1) -> None:
        """Count. Called by: any thread."""
        self.count += number
        if self._parent is not None:
            self._parent.count += number

    @property
    def one_minute_rate(self) -> float:
        """Per second, over about the last minute."""
        return self.read()["OneMinuteRate"]

    def read(self) -> dict[str, float]:
        """Under the names of Yammer's MBean attributes. Called by: one reader at a time."""
        now = self._clock()
        if self._read_count is not None:
            self.count = self._read_count()
        self._tick(now)
        elapsed_s = now - self._started_s
        mean = (self.count - self._counted_before) / elapsed_s if elapsed_s > 0 else 0.0
        return {"Count": self.count, "MeanRate": mean} | {name: self._rates.get(name, 0.0) for name in _MINUTES}

    def _tick(self, now: float) -> None:
        """Yammer's thread does one step every five seconds; here those that are due, all with their average."""
        ticks = int((now - self._ticked_s) / TICK_S)
        if ticks <= 0:
            return
        count = self.count
        per_second = (count - self._counted) / (ticks * TICK_S)
        for name, minutes in _MINUTES.items():
            old = self._rates.get(name, per_second)  # the first step sets the rate
            self._rates[name] = per_second + (old - per_second) * math.exp(-TICK_S * ticks / 60 / minutes)
        self._counted = count
        self._ticked_s += ticks * TICK_S


class Histogram:
    """How large: over all values, and percentiles of the last thousand (Yammer takes a weighted sample instead)."""

    __slots__ = ("_recent", "_sum_of_squares", "count", "maximum", "minimum", "total")

    def __init__(self) -> None:
        self.count = 0
        self.total = 0.0
        self.minimum = math.inf
        self.maximum = -math.inf
        self._sum_of_squares = 0.0
        self._recent: deque[float] = deque(maxlen=_SAMPLES)

    def update(self, value: float) -> None:
        """Called by: any thread; for things that happen less often than messages."""
        self.count += 1
        self.total += value
        self._sum_of_squares += value * value
        if value < self.minimum:
            self.minimum = value
        if value > self.maximum:
            self.maximum = value
        self._recent.append(value)

    def quantiles(self) -> dict[float, float]:
        """Of the values kept, by linear interpolation; zeros if there are none."""
        values = sorted(self._recent.copy())  # a copy is made in one go
        return {quantile: _quantile(values, quantile) for quantile in _QUANTILES.values()}

    def read(self) -> dict[str, float]:
        """Under the names of Yammer's MBean attributes."""
        quantiles = self.quantiles()
        mean = self.total / self.count if self.count else 0.0
        variance = (self._sum_of_squares - self.count * mean * mean) / (self.count - 1) if self.count > 1 else 0.0
        return {
            "Count": self.count,
            "Max": self.maximum if self.count else 0.0,
            "Min": self.minimum if self.count else 0.0,
            "Mean": mean,
            "StdDev": math.sqrt(max(0.0, variance)),
        } | {name: quantiles[quantile] for name, quantile in _QUANTILES.items()}


class Timer:
    """How often and how long, in milliseconds."""

    __slots__ = ("durations_ms", "meter")

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self.meter = Meter(clock)
        self.durations_ms = Histogram()

    def update(self, seconds: float) -> None:
        """Called by: any thread."""
        self.meter.mark()
        self.durations_ms.update(seconds * 1000)

    def read(self) -> dict[str, float]:
        """Under the names of Yammer's MBean attributes."""
        return self.durations_ms.read() | self.meter.read()


class Gauge:
    """A value that is asked for when somebody reads it."""

    __slots__ = ("_read_value",)

    def __init__(self, read_value: Callable[[], float | str]) -> None:
        self._read_value = read_value

    def read(self) -> Mapping[str, float | str]:
        """Under the name of Yammer's MBean attribute."""
        return {"Value": self._read_value()}


def _quantile(values: list[float], quantile: float) -> float:
    if not values:
        return 0.0
    position = quantile * (len(values) + 1)
    if position < 1:
        return values[0]
    if position >= len(values):
        return values[-1]
    lower = values[int(position) - 1]
    return lower + (position - int(position)) * (values[int(position)] - lower)
