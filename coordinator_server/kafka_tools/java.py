"""Java details that are visible in the output of Kafka's tools: class names, log lines, ids."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable
from typing import TypeVar

from coordinator_server.client import Address
from protocol.errors import ErrorCode
from protocol.hashing import java_bucket, java_hash, java_table_size

K = TypeVar("K")

_ERRORS = "org.apache.kafka.common.errors."
_OTHER_NAMES = {
    ErrorCode.UNKNOWN_SERVER_ERROR: "UnknownServerException",
    ErrorCode.CORRUPT_MESSAGE: "CorruptRecordException",
    ErrorCode.REQUEST_TIMED_OUT: "TimeoutException",
    ErrorCode.MESSAGE_TOO_LARGE: "RecordTooLargeException",
    ErrorCode.STALE_CONTROLLER_EPOCH: "ControllerMovedException",
    ErrorCode.OFFSET_METADATA_TOO_LARGE: "OffsetMetadataTooLarge",
    ErrorCode.RECORD_LIST_TOO_LARGE: "RecordBatchTooLargeException",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "TopicAuthorizationException",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "GroupAuthorizationException",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "ClusterAuthorizationException",
    ErrorCode.TOPIC_ALREADY_EXISTS: "TopicExistsException",
    ErrorCode.INVALID_CONFIG: "InvalidConfigurationException",
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: "OutOfOrderSequenceException",
    ErrorCode.DUPLICATE_SEQUENCE_NUMBER: "DuplicateSequenceException",
    ErrorCode.INVALID_PRODUCER_ID_MAPPING: "InvalidPidMappingException",
    ErrorCode.INVALID_TRANSACTION_TIMEOUT: "InvalidTxnTimeoutException",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "TransactionalIdAuthorizationException",
    ErrorCode.KAFKA_STORAGE_ERROR: "KafkaStorageException",
    ErrorCode.SASL_AUTHENTICATION_FAILED: "SaslAuthenticationException",
    ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED: "DelegationTokenDisabledException",
    ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: "UnsupportedByAuthenticationException",
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED: "DelegationTokenAuthorizationException",
    ErrorCode.NON_EMPTY_GROUP: "GroupNotEmptyException",
    ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE: "PrincipalDeserializationException",
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR: "FetchSessionTopicIdException",
    ErrorCode.INVALID_REGULAR_EXPRESSION: "InvalidRegularExpression",
}


def exception_name(code: ErrorCode) -> str:
    """Return the full name of the Java exception for an error code (Kafka's class Errors)."""
    name = _OTHER_NAMES.get(code)
    if name is None:
        name = "".join(word.capitalize() for word in code.name.split("_"))
        name = name if name.endswith("Exception") else name + "Exception"
    return _ERRORS + name


def log(level: str, message: str, logger: str) -> None:
    """Print one line on standard error, in the format of Kafka's config/tools-log4j2.yaml."""
    now = time.time()
    stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(now))
    print(f"[{stamp},{int(now * 1000) % 1000:03}] {level} {message} ({logger})", file=sys.stderr)


def uuid_text(uuid: bytes) -> str:
    """Return a topic id in the format of Kafka's Uuid: URL-safe base64 without padding."""
    from binascii import b2a_base64

    text = b2a_base64(uuid, newline=False).decode().rstrip("=")
    return text.replace("+", "-").replace("/", "_")


def parse_uuid(text: str) -> bytes:
    """Parse a topic id into 16 bytes, like Kafka's Uuid.fromString.

    Raises ValueError with Kafka's message.
    """
    from binascii import Error, a2b_base64

    if len(text) > 24:
        raise ValueError(
            f"Input string with prefix `{text[:24]}` is too long to be decoded as a base64 UUID"
        )
    if len(text.rstrip("=")) == 1:
        raise ValueError("Input byte[] should at least have 2 bytes for base64 bytes")
    for character in text.rstrip("="):
        if not (character.isascii() and (character.isalnum() or character in "-_")):
            raise ValueError(f"Illegal base64 character {ord(character):x}")
    padded = text.rstrip("=").replace("-", "+").replace("_", "/") + "=="
    try:
        decoded = a2b_base64(padded)
    except Error as error:
        raise ValueError(str(error)) from error
    if len(decoded) != 16:
        raise ValueError(
            f"Input string `{text}` decoded as {len(decoded)} bytes, which is not equal to the"
            " expected 16 bytes of a base64-encoded UUID"
        )
    return decoded


_BASE64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


def decode_base64(text: str) -> bytes:
    """Decode base64 like Java's Base64.getDecoder(). Raises ValueError with Java's message."""
    source = text.encode("latin-1", "replace")
    if len(source) == 1:
        raise ValueError("Input byte[] should at least have 2 bytes for base64 bytes")
    value, digits, position = 0, 0, 0
    while position < len(source):
        byte = source[position]
        position += 1
        if byte == ord("="):
            in_unit = digits % 4
            if in_unit == 2:
                position += 1
            if in_unit == 0 or (in_unit == 2 and source[position - 1 : position] != b"="):
                raise ValueError("Input byte array has wrong 4-byte ending unit")
            break
        digit = _BASE64.find(byte)
        if digit < 0:
            signed = byte - 256 if byte > 127 else byte
            raise ValueError(f"Illegal base64 character {signed:x}")
        value, digits = value << 6 | digit, digits + 1
    if digits % 4 == 1:
        raise ValueError("Last unit does not have enough valid bits")
    if position < len(source):
        raise ValueError(f"Input byte array has incorrect ending byte at {position}")
    unused_bits = digits * 6 % 8
    return (value >> unused_bits).to_bytes(digits * 6 // 8, "big")


def socket_address(address: Address, *, is_looked_up: bool = False) -> str:
    """Return an address in the format of java.net.InetSocketAddress: name, slash, number, port.

    With `is_looked_up`, a numeric host is shown with the name from a reverse lookup, as Kafka does
    for SASL.
    """
    import socket

    host, port = address
    try:
        results = socket.getaddrinfo(address.lookup_name(), port, type=socket.SOCK_STREAM)
    except OSError:
        return f"{host}/<unresolved>:{port}"
    number = str(results[0][4][0])
    if is_looked_up and host == number:
        return f"{socket.getfqdn(number)}/{number}:{port}"
    return f"{'' if host == number else host}/{number}:{port}"


def double_text(value: float) -> str:
    """Return a finite number in the format of Java's Double.toString: 7.0, 1.2345678E7, 1.0E-4."""
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    from decimal import Decimal

    sign, digits, _ = Decimal(repr(value)).normalize().as_tuple()
    rest = "".join(map(str, digits[1:])) or "0"
    return f"{'-' if sign else ''}{digits[0]}.{rest}E{Decimal(repr(value)).adjusted()}"


def in_hash_order(places: Iterable[tuple[str, int]]) -> list[tuple[str, int]]:
    """Return partitions in the iteration order of a Java HashMap of TopicPartitions."""
    return in_bucket_order(places, lambda place: 31 * (31 + place[1]) + java_hash(place[0]))


def names_in_hash_order(names: Iterable[str]) -> list[str]:
    """Return names in the iteration order of a Java HashMap of Strings."""
    return in_bucket_order(names, java_hash)


def numbers_in_hash_order(numbers: Iterable[int]) -> list[int]:
    """Return numbers in the iteration order of a Java HashSet of Integers."""
    return in_bucket_order(set(numbers), lambda number: number)


def in_bucket_order(
    keys: Iterable[K], hash_of: Callable[[K], int], *, is_copy: bool = False
) -> list[K]:
    """Return keys in the iteration order of a Java HashMap with these hash codes.

    `is_copy`: a copied map is sized by its keys; other maps start with 16 buckets.
    """
    keys = list(keys)
    size = 1 << int(len(keys) / 0.75).bit_length() if is_copy else java_table_size(len(keys))
    return sorted(keys, key=lambda key: java_bucket(hash_of(key), size))
