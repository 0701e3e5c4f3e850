"""Topic filters: Kafka's own TopicFilterTest, and what Java 17 says of each pattern (tests/vectors/java-regex.json)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from zkconsumer.errors import IllegalArgumentException
from zkconsumer.java_regex import InvalidJavaRegex, UnsupportedJavaRegex, compile_java_regex
from zkconsumer.topic_filter import Blacklist, TopicFilter, Whitelist, normalised

TABLE = json.loads((Path(__file__).parents[1] / "vectors" / "java-regex.json").read_text(encoding="utf-8"))
NAMES: list[str] = TABLE["names"]
PATTERNS: list[tuple[str, list[int] | None]] = TABLE["patterns"]

# Legal in Java, or not known to be illegal, but refused here with one clear line.
NOT_TRANSLATED = [
    r".*(?<=a*)b",
    "(?x)a b",
    r"(?U)\w",
    "(?iU)topic1",
    "[&&a]",
    "[a&&]",
    "[a&&[b]c]",
    "[a-z&&[a]b]",
    "[ab&&&&b]",
    "[a&&&b]",
    r"\141",
    r"\1",
    r"(a)\2",
    r"(\1a)",
    r"\8",
    r"\p{Foo}",
    r"\p{IsFoo}",
    r"\pX",
    r"(?i)[\p{Lower}]",
    r"(?i)\p{Lower}",
    r"(?i)\p{Lu}",
    r"\b{g}a",
    r"\X",
    r"\N{LATIN SMALL LETTER A}",
    r"\p{IsLatin}",
    r"\p{InGreek}",
    r"\p{IsAlphabetic}",
    r"\p{javaLowerCase}",
]
INTERNAL = "__consumer_offsets"


@pytest.mark.parametrize(
    ("topic_filter", "topic", "exclude_internal", "allowed"),
    [
        (Whitelist("white1,white2"), "white2", True, True),
        (Whitelist("white1,white2"), "white2", False, True),
        (Whitelist("white1,white2"), "black1", True, False),
        (Whitelist("white1,white2"), "black1", False, False),
        (Whitelist(".+"), "alltopics", True, True),
        (Whitelist(".+"), INTERNAL, True, False),
        (Whitelist(".+"), INTERNAL, False, True),
        (Whitelist("white_listed-topic.+"), "white_listed-topic1", True, True),
        (Whitelist("white_listed-topic.+"), "black1", True, False),
        (Whitelist(r"test-(?!bad\b)[\w]+"), "test-good", True, True),
        (Whitelist(r"test-(?!bad\b)[\w]+"), "test-bad", True, False),
        (Blacklist("black1"), "white2", True, True),
        (Blacklist("black1"), "white2", False, True),
        (Blacklist("black1"), "black1", True, False),
        (Blacklist("black1"), "black1", False, False),
        (Blacklist("black1"), INTERNAL, True, False),
        (Blacklist("black1"), INTERNAL, False, True),
    ],
    ids=str,
)
def test_filter_allows_what_kafkas_own_does(
    topic_filter: TopicFilter, topic: str, exclude_internal: bool, allowed: bool
) -> None:
    """C13: all cases of Kafka's TopicFilterTest."""
    assert topic_filter.is_topic_allowed(topic, exclude_internal_topics=exclude_internal) is allowed


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (" \"'a, b ,c'\" ", "a|b|c"),
        ("'a'", "a"),
        ("\t a,b\n", "a|b"),
        ("a'b", "a'b"),
        ("''", ""),
        ("a\tb", "a\tb"),
        ("a{1,2}", "a{1|2}"),
        ("\u00a0a", "\u00a0a"),
    ],
    ids=["the original", "quotes", "trimmed", "inner quote", "nothing left", "inner tab", "comma in braces", "nbsp"],
)
def test_text_is_normalised_as_0_8_does(raw: str, expected: str) -> None:
    """C12: trimmed, commas to bars, blanks and outer quotes removed."""
    assert normalised(raw) == expected


def test_text_of_a_filter_is_its_normalised_regex() -> None:
    assert str(Whitelist(" 'a, b' ")) == "a|b"
    assert repr(Blacklist("a,b")) == "Blacklist('a|b')"


@pytest.mark.parametrize("regex", ["[", "a{1,2}", "*", "(?P<x>a)", "a)", r"\y", "(?#c)"])
def test_invalid_regex_is_named_in_the_error(regex: str) -> None:
    """C14: also where Python alone would accept it."""
    with pytest.raises(IllegalArgumentException) as raised:
        Whitelist(regex)

    assert str(raised.value) == f"{regex.replace(',', '|')} is an invalid regex."


def test_regex_that_cannot_be_translated_says_what_to_change() -> None:
    with pytest.raises(IllegalArgumentException) as raised:
        Whitelist(r"\p{IsGreek}+")

    assert str(raised.value) == (
        r"\p{IsGreek}+ cannot be used as a topic filter: \p{IsGreek} of Java's regular expressions is not supported;"
        " write it differently"
    )


def test_internal_topics_of_later_releases_can_be_hidden_too() -> None:
    internal = frozenset({"__consumer_offsets", "__transaction_state"})

    assert Whitelist(".*").is_topic_allowed("__transaction_state", exclude_internal_topics=True)
    assert not Whitelist(".*").is_topic_allowed(
        "__transaction_state", exclude_internal_topics=True, internal_topics=internal
    )


def test_filters_are_equal_if_kind_and_regex_are() -> None:
    assert Whitelist("a,b") == Whitelist("a|b")
    assert hash(Whitelist("a,b")) == hash(Whitelist("a|b"))
    assert Whitelist("a") != Blacklist("a")


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [row for row in PATTERNS if row[0] not in NOT_TRANSLATED and row[1] is not None],
    ids=lambda value: repr(value) if isinstance(value, str) else "",
)
def test_pattern_matches_the_names_that_java_matches(pattern: str, expected: list[int]) -> None:
    compiled = compile_java_regex(pattern)

    assert [name for name in NAMES if compiled.fullmatch(name)] == [NAMES[position] for position in expected]


@pytest.mark.parametrize("pattern", [row[0] for row in PATTERNS if row[1] is None and row[0] not in NOT_TRANSLATED])
def test_pattern_that_java_refuses_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidJavaRegex):
        compile_java_regex(pattern)


@pytest.mark.parametrize("pattern", NOT_TRANSLATED)
def test_pattern_without_a_sure_translation_is_refused(pattern: str) -> None:
    assert pattern in [row[0] for row in PATTERNS]
    with pytest.raises(UnsupportedJavaRegex):
        compile_java_regex(pattern)


@pytest.mark.parametrize(
    "pattern", ["(" * 5000, "[" * 5000, "(?:" * 3000 + ")" * 3000], ids=["groups", "classes", "closed"]
)
def test_hostile_nesting_is_refused_and_does_no_harm(pattern: str) -> None:
    with pytest.raises((InvalidJavaRegex, UnsupportedJavaRegex)):
        compile_java_regex(pattern)
