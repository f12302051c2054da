"""Properties of every message at every version, with messages made by hypothesis."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from protocol.apis.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from protocol.codec import (
    decoder,
    encoder,
    parts_encoder,
    step_decoder,
    step_encoder,
    step_parts_encoder,
)
from protocol.errors import ProtocolError
from protocol.json_form import from_json, to_json
from protocol.schema import (
    BOOL,
    BYTES,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    PLAIN_STRING,
    RECORDS,
    STRING,
    UINT16,
    UUID,
    ArrayType,
    FieldType,
    Message,
)
from tests.codec.support import Case, case_name, cases_by_run

# Lengths around 127 and 128 are where a compact length grows to two bytes.
TEXT = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=6),
    st.integers(120, 300).map(lambda size: "x" * size),
)
BLOB = st.one_of(st.binary(max_size=6), st.integers(120, 300).map(bytes))


T = TypeVar("T")


def integers(bits: int) -> st.SearchStrategy[int]:
    """All signed numbers of a width."""
    return st.integers(-(1 << bits - 1), (1 << bits - 1) - 1)


PRIMITIVES: dict[FieldType, st.SearchStrategy[Any]] = {
    BOOL: st.booleans(),
    INT8: integers(8),
    INT16: integers(16),
    UINT16: st.integers(0, 0xFFFF),
    INT32: integers(32),
    INT64: integers(64),
    FLOAT64: st.floats(allow_nan=False),
    UUID: st.binary(min_size=16, max_size=16),
    STRING: TEXT,
    PLAIN_STRING: TEXT,
    BYTES: BLOB,
    RECORDS: BLOB,
}


def values(kind: FieldType | type[Message], version: int) -> st.SearchStrategy[Any]:
    """Values of a field type."""
    if isinstance(kind, type):
        return messages(kind, version)
    if isinstance(kind, ArrayType):
        return st.lists(values(kind.element, version), max_size=2)
    return PRIMITIVES[kind]


def messages(message_type: type[Message], version: int) -> st.SearchStrategy[Message]:
    """Messages with any values in the fields that the version carries."""
    fields = {}
    for one in message_type.FIELDS:
        if one.in_version(version):
            strategy = values(one.type, version)
            if one.nullable_in(version):
                strategy = st.none() | strategy
            fields[one.name] = strategy
    return st.builds(message_type, **fields)


def in_steps(steps: Generator[None, None, T]) -> T:
    """What the steps return."""
    try:
        while True:
            next(steps)
    except StopIteration as end:
        returned: T = end.value
        return returned


@pytest.mark.parametrize("case", cases_by_run(), ids=case_name)
def test_generated_codec_equals_construct(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any message encodes to construct's bytes, decodes to itself and survives its JSON form.

    In steps it becomes the same bytes and the same message, and a cut one is refused.
    """
    message_type, version = case
    struct = message_type.at(version)
    encode, decode = encoder(message_type, version), decoder(message_type, version)
    monkeypatch.setattr("protocol.codec._functions", {})
    monkeypatch.setattr("protocol.generator.ITEMS_PER_STEP", 1)
    monkeypatch.setattr("protocol.generate_decoder.NUMBERS_PER_STEP", 1)
    encode_in_steps = step_encoder(message_type, version)
    decode_in_steps = step_decoder(message_type, version)
    encode_in_parts = parts_encoder(message_type, version)
    encode_parts_in_steps = step_parts_encoder(message_type, version)

    @settings(
        max_examples=40,
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(messages(message_type, version))
    def check(message: Message) -> None:
        data = encode(message)
        assert data == struct.build(message)
        assert decode(data, 0) == (message, len(data))
        assert in_steps(encode_in_steps(message)) == data
        assert b"".join(encode_in_parts(message)) == data
        assert b"".join(in_steps(encode_parts_in_steps(message))) == data
        assert in_steps(decode_in_steps(data, 0)) == (message, len(data))
        if data:
            with pytest.raises(ProtocolError):
                in_steps(decode_in_steps(data[:-1], 0))
        assert struct.parse(data) == message
        assert from_json(message_type, to_json(message, version)) == message

    check()


def test_large_records_are_parts_of_their_own() -> None:
    """They are not copied; what is between them is joined."""
    large, small = bytes(70_000), b"small"
    partitions = [PartitionData(records=records) for records in (large, small, large)]
    topic = FetchableTopicResponse(topic="t", partitions=partitions)
    response = FetchResponse(responses=[topic])
    for encode in (
        parts_encoder(FetchResponse, 12),
        lambda message: in_steps(step_parts_encoder(FetchResponse, 12)(message)),
    ):
        parts = encode(response)
        assert [part is large for part in parts] == [False, True, False, True, False]
        assert b"".join(parts) == encoder(FetchResponse, 12)(response)
