"""Error codes against what 0.8.2.2's ErrorMapping and 3.9.1's Errors say."""

from __future__ import annotations

import pickle

import pytest

from fetcher.errors import InvalidMessageException, UnknownException, class_name_for, exception_for

CLASSES_OF_0_8_2_2 = {
    -1: "kafka.common.UnknownException",
    1: "kafka.common.OffsetOutOfRangeException",
    2: "kafka.message.InvalidMessageException",
    3: "kafka.common.UnknownTopicOrPartitionException",
    4: "kafka.common.InvalidMessageSizeException",
    5: "kafka.common.LeaderNotAvailableException",
    6: "kafka.common.NotLeaderForPartitionException",
    7: "kafka.common.RequestTimedOutException",
    8: "kafka.common.BrokerNotAvailableException",
    9: "kafka.common.ReplicaNotAvailableException",
    10: "kafka.common.MessageSizeTooLargeException",
    11: "kafka.common.ControllerMovedException",
    12: "kafka.common.OffsetMetadataTooLargeException",
    13: "kafka.common.UnknownException",
    14: "kafka.common.OffsetsLoadInProgressException",
    15: "kafka.common.ConsumerCoordinatorNotAvailableException",
    16: "kafka.common.NotCoordinatorForConsumerException",
    17: "kafka.common.InvalidTopicException",
    18: "kafka.common.MessageSetSizeTooLargeException",
    19: "kafka.common.NotEnoughReplicasException",
    20: "kafka.common.NotEnoughReplicasAfterAppendException",
    21: "kafka.common.UnknownException",
    29: "kafka.common.UnknownException",
}


@pytest.mark.parametrize("code", CLASSES_OF_0_8_2_2)
def test_log_lines_name_the_class_that_0_8_2_2_names(code: int) -> None:
    assert class_name_for(code) == CLASSES_OF_0_8_2_2[code]


@pytest.mark.parametrize("code", [code for code in CLASSES_OF_0_8_2_2 if code not in (13, 21, 29)])
def test_a_code_becomes_the_exception_of_that_name(code: int) -> None:
    error = exception_for(code)

    assert type(error).__name__ == CLASSES_OF_0_8_2_2[code].rpartition(".")[2]
    assert str(code) in str(error)


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (29, "TopicAuthorizationException"),
        (76, "UnsupportedCompressionTypeException"),
        (88, "UnstableOffsetCommitException"),
    ],
)
def test_later_codes_have_the_names_of_later_releases(code: int, name: str) -> None:
    assert type(exception_for(code)).__name__ == name


def test_a_code_from_the_future_is_shown() -> None:
    error = exception_for(999)

    assert type(error) is UnknownException
    assert "999" in str(error)


def test_exceptions_keep_their_facts_on_the_way_to_another_process() -> None:
    error = InvalidMessageException("Message is corrupt", stored_crc=1, computed_crc=2)

    copy = pickle.loads(pickle.dumps(error))

    assert (str(copy), copy.stored_crc, copy.computed_crc) == ("Message is corrupt", 1, 2)
