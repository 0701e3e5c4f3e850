"""Files of settings as Java reads and writes them (0.8: java.util.Properties, Utils.loadProps).

Pure. Bytes are ISO-8859-1, everything else is written `\\uXXXX`; a line may go on in the next one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_BLANKS = " \t\f"
_LINE_END = re.compile(r"\r\n|\r|\n")
_SHORT = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_properties(data: bytes) -> dict[str, str]:
    """Keys and values; of a key given twice the last one counts. Raises ValueError for a broken `\\u`."""
    return dict(_split(line) for line in _logical_lines(data.decode("iso-8859-1")))


def _logical_lines(text: str) -> Iterator[str]:
    """Without comments and blank lines, continued lines joined, blanks at the start of each removed."""
    lines = iter(_LINE_END.split(text))
    for line in lines:
        line = line.lstrip(_BLANKS)
        if not line or line[0] in "#!" or line == "\\":  # a backslash alone continues nothing
            continue
        while _ends_with_odd_backslashes(line):
            line = line[:-1] + next(lines, "").lstrip(_BLANKS)
        yield line


def _ends_with_odd_backslashes(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _split(line: str) -> tuple[str, str]:
    """The key ends at the first `=`, `:` or blank that no backslash protects."""
    end = 0
    while end < len(line) and line[end] not in "=:" + _BLANKS:
        end += 2 if line[end] == "\\" else 1
    rest = line[end:].lstrip(_BLANKS)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_BLANKS)
    return _unescaped(line[:end]), _unescaped(rest)


def _unescaped(text: str) -> str:
    parts: list[str] = []
    position = 0
    while position < len(text):
        char = text[position]
        position += 1
        if char == "\\" and position < len(text):
            char = text[position]
            position += 1
            if char == "u":
                char = _unicode(text[position : position + 4])
                position += 4
            else:
                char = _SHORT.get(char, char)
        parts.append(char)
    # Java's texts are UTF-16: two escapes may be one character.
    return "".join(parts).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _unicode(digits: str) -> str:
    if not re.fullmatch("[0-9a-fA-F]{4}", digits):
        raise ValueError(f"\\u{digits} should have four hexadecimal digits")
    return chr(int(digits, 16))
