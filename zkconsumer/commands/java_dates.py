"""Dates in the formats that Java's users write (java.text.SimpleDateFormat, in English).

Pure but for the time zone, which is this machine's.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime

from zkconsumer.errors import IllegalArgumentException

_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_PARTS = re.compile(r"''|'(?:[^']|'')*'|(?P<letters>(?P<letter>[A-Za-z])(?P=letter)*)|[^A-Za-z']+|'")

_NUMBERS: dict[str, Callable[[datetime], int]] = {
    "d": lambda moment: moment.day,
    "D": lambda moment: moment.timetuple().tm_yday,
    "H": lambda moment: moment.hour,
    "k": lambda moment: moment.hour or 24,
    "K": lambda moment: moment.hour % 12,
    "h": lambda moment: moment.hour % 12 or 12,
    "m": lambda moment: moment.minute,
    "s": lambda moment: moment.second,
    "S": lambda moment: moment.microsecond // 1000,
    "u": lambda moment: moment.isoweekday(),
}


class JavaDateFormat:
    """A pattern such as `yyyy-MM-dd HH:mm:ss:SSS`. Raises IllegalArgumentException in Java's words if it is none."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self._parts = [_part(found) for found in _PARTS.finditer(pattern)]

    def format(self, time_ms: int) -> str:
        """A time of System.currentTimeMillis(), here and now."""
        moment = datetime.fromtimestamp(time_ms // 1000).astimezone().replace(microsecond=time_ms % 1000 * 1000)
        return "".join(part if isinstance(part, str) else part(moment) for part in self._parts)


def _part(found: re.Match[str]) -> str | Callable[[datetime], str]:
    text = found.group()
    if found["letters"] is None:
        if text == "'":
            raise IllegalArgumentException("Unterminated quote")
        return "'" if text == "''" else text[1:-1].replace("''", "'") if text[0] == "'" else text
    letter, width = found["letter"], len(text)
    if letter in _NUMBERS:
        return lambda moment: f"{_NUMBERS[letter](moment):0{width}d}"
    match letter:
        case "y":
            return lambda moment: f"{moment.year % 100:02d}" if width == 2 else f"{moment.year:0{width}d}"
        case "M" | "L":
            return lambda moment: _named(_MONTHS, moment.month, width) if width > 2 else f"{moment.month:0{width}d}"
        case "E":
            return lambda moment: _named(_DAYS, moment.isoweekday(), width)
        case "a":
            return lambda moment: "AM" if moment.hour < 12 else "PM"
        case "G":
            return "AD"
        case "z":
            return lambda moment: moment.strftime("%Z")
        case "Z":
            return lambda moment: moment.strftime("%z")
        case "X" if width <= 3:
            return lambda moment: _iso_zone(moment, width)
    raise IllegalArgumentException(f"Illegal pattern character '{letter}'")


def _named(names: tuple[str, ...], number: int, width: int) -> str:
    return names[number - 1] if width > 3 else names[number - 1][:3]


def _iso_zone(moment: datetime, width: int) -> str:
    zone = moment.strftime("%z")
    if zone == "+0000":
        return "Z"
    return {1: zone[:3], 2: zone, 3: f"{zone[:3]}:{zone[3:]}"}[width]
