"""Java's representations: exception names, ids, addresses, numbers."""

from __future__ import annotations

import pytest

from coordinator_server.client import Address
from coordinator_server.kafka_tools.java import (
    double_text,
    exception_name,
    parse_uuid,
    socket_address,
    uuid_text,
)
from coordinator_server.kafka_tools.storage import random_uuid
from protocol.errors import ErrorCode

PACKAGE = "org.apache.kafka.common.errors."


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (ErrorCode.TOPIC_ALREADY_EXISTS, "TopicExistsException"),
        (ErrorCode.INVALID_TOPIC_EXCEPTION, "InvalidTopicException"),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "UnknownTopicOrPartitionException"),
        (ErrorCode.REQUEST_TIMED_OUT, "TimeoutException"),
        (ErrorCode.OFFSET_METADATA_TOO_LARGE, "OffsetMetadataTooLarge"),
    ],
)
def test_an_error_code_has_the_name_of_its_exception(code: ErrorCode, name: str) -> None:
    """An error code has the name of Kafka's exception (class Errors)."""
    assert exception_name(code) == PACKAGE + name


def test_a_topic_id_is_url_safe_base64() -> None:
    """A topic id is URL-safe base64; random ids never start with a hyphen."""
    uuid = bytes.fromhex("fbefff00112233445566778899aabbcc")
    assert uuid_text(uuid) == "--__ABEiM0RVZneImaq7zA"
    assert parse_uuid(uuid_text(uuid)) == uuid
    ids = {random_uuid() for _ in range(500)}
    assert len(ids) == 500
    assert not any(text.startswith("-") for text in ids)
    assert {parse_uuid(text)[6] >> 4 for text in ids} == {4}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x", "Input byte\\[\\] should at least have 2 bytes for base64 bytes"),
        ("xx", "Input string `xx` decoded as 1 bytes, which is not equal to the expected 16 bytes"),
        ("a*", "Illegal base64 character 2a"),
        ("A" * 25, "Input string with prefix `A{24}` is too long to be decoded as a base64 UUID"),
    ],
)
def test_what_is_no_topic_id_says_why(text: str, message: str) -> None:
    """An invalid topic id gets the text of Kafka's class Uuid or of Java's decoder."""
    with pytest.raises(ValueError, match=f"^{message}"):
        parse_uuid(text)


def test_an_address_shows_name_and_number() -> None:
    """An address is printed as by InetSocketAddress, without a name if it was given as a number."""
    assert socket_address(Address("127.0.0.1", 9092)) == "/127.0.0.1:9092"
    assert (
        socket_address(Address("no-such-host.invalid", 1)) == "no-such-host.invalid/<unresolved>:1"
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (7.0, "7.0"),
        (1.5, "1.5"),
        (9_999_999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (12_345_678.0, "1.2345678E7"),
        (0.001, "0.001"),
        (0.0001, "1.0E-4"),
        (-2.5e-7, "-2.5E-7"),
    ],
)
def test_a_number_is_printed_as_java_prints_it(value: float, text: str) -> None:
    """Double.toString uses an exponent below 0.001 and from ten million on."""
    assert double_text(value) == text
