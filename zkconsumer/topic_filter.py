"""Which topics a wildcard subscription takes (0.8: TopicFilter, Whitelist, Blacklist).

Pure. The text is a Java regular expression, read as such (java_regex) and matched against whole names. Members put
each other's regex through the same steps, so the result of normalising is what is registered, shown and compared.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from zkconsumer.emulation import INTERNAL_TOPICS
from zkconsumer.errors import IllegalArgumentException
from zkconsumer.java_regex import InvalidJavaRegex, UnsupportedJavaRegex, compile_java_regex
from zkconsumer.znodes import Pattern

_JAVA_TRIMMED = "".join(map(chr, range(0x21)))  # String.trim(): every character up to the blank
_QUOTES = "\"'"


class TopicFilter(ABC):
    """A regex and what a match means. Its text is the normalised regex; equal if kind and text are."""

    pattern: ClassVar[Pattern]

    def __init__(self, raw_regex: str) -> None:
        """Raises IllegalArgumentException `<regex> is an invalid regex.`, or says what we cannot translate."""
        self.regex = normalised(raw_regex)
        try:
            self._compiled = compile_java_regex(self.regex)
        except InvalidJavaRegex as error:
            raise IllegalArgumentException(f"{self.regex} is an invalid regex.") from error
        except UnsupportedJavaRegex as error:
            raise IllegalArgumentException(f"{self.regex} cannot be used as a topic filter: {error}") from error

    def is_topic_allowed(
        self, topic: str, *, exclude_internal_topics: bool, internal_topics: frozenset[str] = INTERNAL_TOPICS
    ) -> bool:
        """Whether to consume this topic (0.8: isTopicAllowed)."""
        return self._allows(topic) and not (exclude_internal_topics and topic in internal_topics)

    @abstractmethod
    def _allows(self, topic: str) -> bool: ...

    def _matches(self, topic: str) -> bool:
        return self._compiled.fullmatch(topic) is not None

    def __str__(self) -> str:
        return self.regex

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.regex!r})"

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and isinstance(other, TopicFilter) and other.regex == self.regex

    def __hash__(self) -> int:
        return hash((type(self), self.regex))


class Whitelist(TopicFilter):
    """Topics whose whole name matches."""

    pattern: ClassVar[Pattern] = "white_list"

    def _allows(self, topic: str) -> bool:
        return self._matches(topic)


class Blacklist(TopicFilter):
    """Topics whose whole name does not match."""

    pattern: ClassVar[Pattern] = "black_list"

    def _allows(self, topic: str) -> bool:
        return not self._matches(topic)


def normalised(raw_regex: str) -> str:
    """Commas mean "or", blanks and outer quotes nothing: neither comma nor blank can be part of a pattern."""
    return raw_regex.strip(_JAVA_TRIMMED).replace(",", "|").replace(" ", "").lstrip(_QUOTES).rstrip(_QUOTES)
