"""Rows and dates of consumer-perf. Expected dates: Java 17's SimpleDateFormat, Locale.US, UTC."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from zkconsumer.commands.consumer_perf import Amount, RowStyle
from zkconsumer.commands.java_dates import JavaDateFormat
from zkconsumer.errors import IllegalArgumentException

AFTERNOON, LEAP_DAY, NEW_YEAR = 1447000000007, 951782400000, 1704110399999


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("yyyy-MM-dd HH:mm:ss:SSS", "2015-11-08 16:26:40:007|2000-02-29 00:00:00:000|2024-01-01 11:59:59:999"),
        ("yy/M/d h:m:s a", "15/11/8 4:26:40 PM|00/2/29 12:0:0 AM|24/1/1 11:59:59 AM"),
        (
            "EEE, d MMM yyyy HH:mm:ss Z",
            "Sun, 8 Nov 2015 16:26:40 +0000|Tue, 29 Feb 2000 00:00:00 +0000|Mon, 1 Jan 2024 11:59:59 +0000",
        ),
        ("EEEE, MMMM dd", "Sunday, November 08|Tuesday, February 29|Monday, January 01"),
        ("'at' HH 'o''clock'", "at 16 o'clock|at 00 o'clock|at 11 o'clock"),
        ("''yyyy''", "'2015'|'2000'|'2024'"),
        ("D u k K S", "312 7 16 4 7|60 2 24 0 0|1 1 11 11 999"),
        (
            "yyyy-MM-dd'T'HH:mm:ss.SSSXXX",
            "2015-11-08T16:26:40.007Z|2000-02-29T00:00:00.000Z|2024-01-01T11:59:59.999Z",
        ),
        ("y yyy yyyyy", "2015 2015 02015|2000 2000 02000|2024 2024 02024"),
        ("X XX z G", "Z Z UTC AD|Z Z UTC AD|Z Z UTC AD"),
        ("LLLL L", "November 11|February 2|January 1"),
        ("MMMMM", "November|February|January"),
        ("E EEEEE aa", "Sun Sunday PM|Tue Tuesday AM|Mon Monday AM"),
    ],
)
def test_dates_are_written_as_java_writes_them(pattern: str, expected: str) -> None:
    """N12: --date-format."""
    dates = [JavaDateFormat(pattern).format(moment) for moment in (AFTERNOON, LEAP_DAY, NEW_YEAR)]

    assert "|".join(dates) == expected


@pytest.mark.parametrize(
    ("pattern", "complaint"),
    [("yyyy 'x", "Unterminated quote"), ("'", "Unterminated quote"), ("yyyy-TT", "Illegal pattern character 'T'")],
)
def test_what_java_refuses_is_refused_in_its_words(pattern: str, complaint: str) -> None:
    with pytest.raises(IllegalArgumentException, match=complaint):
        JavaDateFormat(pattern)


def test_a_row_of_the_original_comes_out_of_its_numbers() -> None:
    """N12: the row that 0.8.2.2 printed in tools.md §8, 8 ms of reading and 5000 of waiting."""
    style = RowStyle(JavaDateFormat("yyyy-MM-dd HH:mm:ss:SSS"), 1048576)
    began_ms = 1794981922752

    row = style.total(Amount(messages=90, bytes=260), began_ms, began_ms + 5008)

    assert row == "2026-11-18 06:05:22:752, 2026-11-18 06:05:27:760, 1048576, 0.0002, 0.0310, 90, 11250.0000"


@pytest.mark.parametrize(
    ("elapsed_ms", "rates"),
    [
        (10, ("95.3674", "1000.0000")),  # 10 messages in 10 ms
        (11, ("86.6977", "0.0000")),  # whole messages a millisecond: none
        (0, ("Infinity", "0.0000")),
    ],
)
def test_messages_a_second_of_a_thread_are_thousands(elapsed_ms: int, rates: tuple[str, str]) -> None:
    """N12: the last column divides whole numbers first."""
    style = RowStyle(JavaDateFormat("yyyy"), 1048576)

    row = style.details(3, Amount(30, 2_000_000), Amount(20, 1_000_000), AFTERNOON - elapsed_ms, AFTERNOON)

    assert row == f"2015, 3, 1048576, 1.9073, {rates[0]}, 30, {rates[1]}"
