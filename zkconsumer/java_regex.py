"""Java's regular expressions in Python's: members of a group must agree on what a topic filter matches.

No 0.8 counterpart: there java.util.regex is at hand. The pattern is parsed by Java's rules and written anew, so that
neither what Python reads differently (`a{2|3}`, `[a&&b]`, `\\h`) nor what only Python has (`(?P<n>…)`, `(?#…)`) slips
through. Exact for legal topic names (ASCII); tests/vectors/java-regex.json holds what Java 17 says.
Rule: what cannot be translated with certainty raises UnsupportedJavaRegex, and is never guessed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import NoReturn

from zkconsumer import char_sets
from zkconsumer.char_sets import CharSet

_MAX_REPETITIONS = (1 << 31) - 1
_FLAGS = "idmsuxU"
_OCTAL = "01234567"
_HEX = "0123456789abcdefABCDEF"
_LINE_ENDS = "\\n\\r\\x85\\u2028\\u2029"
_END_OF_TEXT = f"(?=(?:\\r\\n|[{_LINE_ENDS}])?\\Z)"
_CONTROL_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}
_ASSERTIONS = {"b": "\\b", "B": "\\B", "A": "\\A", "G": "\\A", "z": "\\Z", "Z": _END_OF_TEXT}
_LINE_BREAK = "(?:\\r\\n|[\\n\\x0b\\f\\r\\x85\\u2028\\u2029])"


class InvalidJavaRegex(ValueError):
    """Java does not accept it either."""


class UnsupportedJavaRegex(ValueError):
    """Java may accept it, but there is no sure translation."""


@lru_cache(maxsize=256)  # every rebalance reads every member's regex
def compile_java_regex(pattern: str) -> re.Pattern[str]:
    """A Python pattern that matches what Java's does; use it with fullmatch(), as Java's matches()."""
    try:
        return re.compile(translate(pattern), re.ASCII)
    except (re.error, OverflowError) as error:  # parsed by Java's rules, so Python is what cannot do it
        raise UnsupportedJavaRegex(f"Python has nothing like it ({error})") from error
    except RecursionError as error:
        raise UnsupportedJavaRegex("it is nested too deeply") from error


def translate(pattern: str) -> str:
    """The same expression in Python's syntax."""
    return _Translator(_tokens(pattern)).whole()


def _tokens(pattern: str) -> list[str]:
    """One token a character; those between \\Q and \\E are doubled in length so that they equal no syntax."""
    tokens: list[str] = []
    position = 0
    while position < len(pattern):
        if pattern.startswith("\\Q", position):
            end = pattern.find("\\E", position + 2)
            tokens += ["q" + char for char in pattern[position + 2 : end if end >= 0 else len(pattern)]]
            position = end + 2 if end >= 0 else len(pattern)
        elif pattern[position] == "\\" and position + 1 < len(pattern):
            tokens += pattern[position : position + 2]
            position += 2
        else:
            tokens.append(pattern[position])
            position += 1
    return tokens


class _Translator:
    """Recursive descent over the tokens. State: position, flags in force, capturing groups so far."""

    def __init__(self, tokens: list[str]) -> None:
        self._tokens = tokens
        self._position = 0
        self._flags: frozenset[str] = frozenset()
        self._groups = 0
        self._closed: set[int] = set()
        self._named: dict[str, int] = {}

    def whole(self) -> str:
        branches = self._branches()
        if self._peek():
            self._invalid("unmatched closing parenthesis")
        return "|".join(branches)

    def _branches(self) -> list[str]:
        """The alternatives up to a closing parenthesis or the end."""
        branches = [self._sequence()]
        while self._accept("|"):
            branches.append(self._sequence())
        return branches

    def _sequence(self) -> str:
        parts: list[str] = []
        while (token := self._peek()) not in ("", "|", ")"):
            if token in ("*", "+", "?"):
                self._invalid(f"nothing before {token}")
            if token == "{":
                self._quantifier()  # Java repeats the nothing before it
            elif (atom := self._atom()) is not None:
                quantifier = self._quantifier()
                parts.append(f"(?:{atom}){quantifier}" if quantifier else atom)
        return "".join(parts)

    def _atom(self) -> str | None:
        """One thing that can be repeated; None for a group that only sets flags."""
        token = self._next()
        match token:
            case "(":
                return self._group()
            case "[":
                return self._class().to_regex()
            case ".":
                return self._dot().to_regex()
            case "^":
                return f"(?:\\A|(?<=[{_LINE_ENDS}])(?!\\Z))" if "m" in self._flags else "\\A"
            case "$":
                return f"(?=[{_LINE_ENDS}]|\\Z)" if "m" in self._flags else _END_OF_TEXT
            case "\\":
                return self._escape()
            case _:
                return self._literal(token[-1])

    def _literal(self, char: str) -> str:
        if "i" not in self._flags:
            return re.escape(char)
        if "u" in self._flags:
            return f"(?iu:{re.escape(char)})"
        return CharSet.of(char).ignoring_ascii_case().to_regex() if char.isascii() else re.escape(char)

    def _dot(self) -> CharSet:
        if "s" in self._flags:
            return char_sets.EVERYTHING
        return (CharSet.of("\n") if "d" in self._flags else char_sets.LINE_ENDS).complement()

    def _quantifier(self) -> str:
        """The repetition that stands here, or an empty text."""
        token = self._peek()
        if token in ("*", "+", "?"):
            self._next()
            repetition = token
        elif token == "{":
            self._next()
            repetition = self._counts()
        else:
            return ""
        return repetition + (self._next() if self._peek() in ("?", "+") else "")

    def _counts(self) -> str:
        least = self._digits("illegal repetition")
        most = least
        if self._accept(","):
            most = self._digits("") if self._peek() != "}" else ""
        if not self._accept("}"):
            self._invalid("unclosed repetition")
        if int(least) > _MAX_REPETITIONS or (most and not int(least) <= int(most) <= _MAX_REPETITIONS):
            self._invalid("illegal repetition range")
        return f"{{{least}}}" if most == least else f"{{{least},{most}}}"

    def _digits(self, complaint: str) -> str:
        digits = ""
        while len(self._peek()) == 1 and self._peek() in "0123456789":
            digits += self._next()
        if not digits:
            self._invalid(complaint or "unclosed repetition")
        return digits if len(digits) < 20 else "9" * 20  # larger than allowed either way

    def _group(self) -> str | None:
        flags_outside = self._flags
        if not self._accept("?"):
            return self._capture("(", flags_outside)
        kind = self._next()
        if kind == "<" and self._peek() not in ("=", "!"):
            name = self._group_name()
            if name in self._named:
                self._invalid(f"two groups are called {name}")
            self._named[name] = self._groups + 1
            return self._capture(f"(?P<{name}>", flags_outside)
        if kind == "<":
            return self._look_behind(self._next(), flags_outside)
        if kind in (":", "=", "!", ">"):
            return f"(?{kind}{'|'.join(self._inside(flags_outside))})"
        return self._inline_flags(kind, flags_outside)

    def _capture(self, opening: str, flags_outside: frozenset[str]) -> str:
        self._groups += 1
        number = self._groups
        content = "|".join(self._inside(flags_outside))
        self._closed.add(number)
        return f"{opening}{content})"

    def _inside(self, flags_outside: frozenset[str]) -> list[str]:
        branches = self._branches()
        if not self._accept(")"):
            self._invalid("unclosed group")
        self._flags = flags_outside
        return branches

    def _look_behind(self, kind: str, flags_outside: frozenset[str]) -> str:
        # Python wants one width; alternatives of different widths can look behind one by one.
        looks = [f"(?<{kind}{branch})" for branch in self._inside(flags_outside)]
        return f"(?:{'|'.join(looks)})" if kind == "=" else f"(?:{''.join(looks)})"

    def _inline_flags(self, first: str, flags_outside: frozenset[str]) -> str | None:
        switched_on, token = True, first
        flags = set(self._flags)
        while token not in (")", ":"):
            if token == "-" and switched_on:
                switched_on = False
            elif token and token in _FLAGS:
                if switched_on and token in "xU":
                    self._unsupported(f"the flag {token}")
                (flags.add if switched_on else flags.discard)(token)
            else:
                self._invalid("unknown inline modifier")
            token = self._next()
        self._flags = frozenset(flags)
        if token == ")":
            return None  # in force until the group around it ends
        return f"(?:{'|'.join(self._inside(flags_outside))})"

    def _group_name(self) -> str:
        name = ""
        while (char := self._next()) != ">":
            if not (len(char) == 1 and char.isascii() and char.isalnum()) or (not name and char.isdigit()):
                self._invalid("unknown look-behind group, or a group name that is none")
            name += char
        return name or self._invalid("a group without a name")

    def _escape(self) -> str:
        """What follows a backslash outside a class."""
        char = self._next()
        if char in _ASSERTIONS:
            if char == "b" and self._peek() == "{":
                self._unsupported("\\b{…}")
            return f"(?:{_ASSERTIONS[char]})"
        if char == "R":
            return _LINE_BREAK
        if char == "k":
            return self._named_reference()
        if char in "123456789" and char:
            return self._numbered_reference(char)
        found = self._escaped_char_or_set(char)
        return found.to_regex() if isinstance(found, CharSet) else self._literal(found)

    def _named_reference(self) -> str:
        if not self._accept("<"):
            self._invalid("\\k without a group name")
        name = self._group_name()
        if name not in self._named:
            self._invalid(f"no group is called {name} so far")
        return self._reference(self._named[name])

    def _numbered_reference(self, digits: str) -> str:
        # Further digits belong to the number only as long as so many groups have been opened.
        while len(self._peek()) == 1 and self._peek() in "0123456789" and int(digits + self._peek()) <= self._groups:
            digits += self._next()
        return self._reference(int(digits))

    def _reference(self, number: int) -> str:
        if number not in self._closed:
            self._unsupported(f"a reference to group {number}, which does not end before it")
        reference = f"(?:\\{number})"
        if "i" not in self._flags:
            return reference
        return f"(?i{'u' if 'u' in self._flags else ''}:{reference})"

    def _escaped_char_or_set(self, char: str) -> str | CharSet:
        """What may follow a backslash both inside and outside a class."""
        if char in _CONTROL_ESCAPES:
            return _CONTROL_ESCAPES[char]
        if char in char_sets.PREDEFINED:
            return char_sets.PREDEFINED[char]
        if char in ("p", "P"):
            return self._property(negated=char == "P")
        if char in ("X", "N"):
            self._unsupported(f"\\{char}")
        readers: dict[str, Callable[[], str]] = {
            "0": self._octal,
            "x": self._hexadecimal,
            "u": self._unicode,
            "c": self._control,
        }
        if char in readers:
            return readers[char]()
        if not char or (char.isascii() and char.isalnum()):
            self._invalid(f"illegal escape sequence \\{char}")
        return char[-1]

    def _octal(self) -> str:
        digits = ""
        while (
            self._peek() and self._peek() in _OCTAL and (len(digits) < 2 or (len(digits) == 2 and digits[0] in "0123"))
        ):
            digits += self._next()
        return chr(int(digits, 8)) if digits else self._invalid("illegal octal escape")

    def _hexadecimal(self) -> str:
        if not self._accept("{"):
            return chr(int(self._hex_digits(2), 16))
        digits = ""
        while (char := self._next()) != "}":
            if not char or char not in _HEX or len(digits) == 6:
                self._invalid("illegal hexadecimal escape")
            digits += char
        if not digits or int(digits, 16) > 0x10FFFF:
            self._invalid("illegal hexadecimal escape")
        return chr(int(digits, 16))

    def _unicode(self) -> str:
        code = int(self._hex_digits(4), 16)
        if 0xD800 <= code <= 0xDBFF and self._tokens[self._position : self._position + 2] == ["\\", "u"]:
            self._position += 2
            low = int(self._hex_digits(4), 16)
            if not 0xDC00 <= low <= 0xDFFF:
                self._unsupported("half a surrogate pair")
            code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)
        return chr(code)

    def _hex_digits(self, count: int) -> str:
        digits = "".join(self._next() for _ in range(count))
        if len(digits) != count or any(digit not in _HEX for digit in digits):
            self._invalid("illegal hexadecimal escape")
        return digits

    def _control(self) -> str:
        char = self._next() or self._invalid("\\c at the end")
        return chr(ord(char[-1]) ^ 64)

    def _property(self, *, negated: bool) -> CharSet:
        name = self._next()
        if name == "{":
            name = ""
            while (char := self._next()) != "}":
                name += char or self._invalid("unclosed character family")
        if not name:
            self._invalid("empty character family")
        # With (?i) some of Java's releases let \p{Lower} match capitals and some do not.
        if "i" in self._flags and name.removeprefix("Is") in ("Lower", "Upper", "Ll", "Lu", "Lt"):
            self._unsupported(f"\\p{{{name}}} together with the flag i")
        found = char_sets.property_named(name)
        if found is None:
            self._unsupported(f"\\p{{{name}}}")
        return found.complement() if negated else found

    def _class(self) -> CharSet:
        """A class whose opening bracket is behind us: a union, or an intersection of unions."""
        negated = self._accept("^")
        result = self._union(first=True)
        while self._at_intersection():
            self._position += 2
            result = result.intersection(self._operand())
        if not self._accept("]"):
            self._invalid("unclosed character class")
        return result.complement() if negated else result

    def _operand(self) -> CharSet:
        """The right side of &&. Java drops classes that stand before plain characters here; so we refuse to read it."""
        if self._peek() in ("]", "&"):
            self._unsupported("&& with nothing or another & behind it")
        nested_first = self._peek() == "["
        result = CharSet(())
        while nested_first and self._accept("["):
            result = result.union(self._class())
        if not nested_first:
            return self._union(first=False)
        if self._peek() not in ("]", "") and not self._at_intersection():
            self._unsupported("&& followed by a class and more")
        return result

    def _union(self, *, first: bool) -> CharSet:
        result: CharSet | None = None
        while True:
            token = self._peek()
            if token == "":
                self._invalid("unclosed character class")
            if token == "]" and (result is not None or not first):
                return result or CharSet(())
            if self._at_intersection():
                return result if result is not None else self._unsupported("&& with nothing before it")
            item = self._class() if self._accept("[") else self._class_item()
            result = item if result is None else result.union(item)

    def _class_item(self) -> CharSet:
        start = self._class_char()
        if isinstance(start, CharSet):
            return start
        end = start
        if self._peek() == "-" and self._peek(1) not in ("[", "]", ""):
            self._next()
            limit = self._class_char()
            if isinstance(limit, CharSet) or limit < start:
                self._invalid("illegal character range")
            end = limit
        found = CharSet.range(start, end)
        return found.ignoring_ascii_case() if "i" in self._flags else found

    def _class_char(self) -> str | CharSet:
        token = self._next()
        if token != "\\":
            return token[-1] if token else self._invalid("unclosed character class")
        return self._escaped_char_or_set(self._next())

    def _at_intersection(self) -> bool:
        return self._peek() == "&" and self._peek(1) == "&"

    def _peek(self, ahead: int = 0) -> str:
        """The token here, empty at the end."""
        position = self._position + ahead
        return self._tokens[position] if position < len(self._tokens) else ""

    def _next(self) -> str:
        token = self._peek()
        self._position += 1
        return token

    def _accept(self, token: str) -> bool:
        if self._peek() != token:
            return False
        self._position += 1
        return True

    def _invalid(self, reason: str) -> NoReturn:
        raise InvalidJavaRegex(f"{reason} near position {self._position}")

    def _unsupported(self, construct: str) -> NoReturn:
        raise UnsupportedJavaRegex(f"{construct} of Java's regular expressions is not supported; write it differently")
