"""Records: browsing and producing."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired, TypedDict


class EncodedRecord(TypedDict):
    """A record with base64 contents."""

    offset: Annotated[int, "offset"]
    timestamp_ms: Annotated[int, "timestamp"]
    key: Annotated[str | None, "key in base64"]
    value: Annotated[str | None, "value in base64"]
    headers: Annotated[list[list[str | None]], "pairs of a name and a value in base64 or null"]


class EncodedRecords(TypedDict):
    """Records of one partition, with base64 contents."""

    records: Annotated[list[EncodedRecord], "the records"]
    next_offset: Annotated[int, "offset for the next request"]
    start_offset: Annotated[int, "log start offset"]
    end_offset: Annotated[int, "high watermark"]


class Decoded(TypedDict):
    """A content decoded with its schema from a schema registry, or the error that prevented this.

    The values of Avro and Protobuf are shown as JSON.
    """

    schema_type: Annotated[
        Literal["AVRO", "PROTOBUF", "JSON"] | None, "type of the schema; null if it is not known"
    ]
    name: Annotated[str | None, "name of the record or message, the title of a JSON Schema"]
    text: Annotated[str | None, "JSON, cut to `max_bytes`; null if there is an error"]
    is_cut: Annotated[bool, "whether `text` has only the first bytes"]
    error: Annotated[str | None, "why the content is not decoded"]


class Content(TypedDict):
    """A record key, record value or header value, converted to text."""

    format: Annotated[
        Literal["null", "text", "json", "hex", "base64"],
        "how `text` shows the bytes; `null` is Kafka's null",
    ]
    text: Annotated[str | None, "the content, cut to `max_bytes`; null for Kafka's null"]
    size_bytes: Annotated[int, "size of the whole content; 0 for null"]
    is_cut: Annotated[bool, "whether `text` has only the first bytes"]
    schema_id: Annotated[
        int | None, "schema id, if the content begins with the header of Confluent's serializers"
    ]
    decoded: NotRequired[
        Annotated[
            Decoded, "of contents with a schema id, if there is a registry; formats auto and json"
        ]
    ]


class Header(TypedDict):
    """A header of a record."""

    name: Annotated[str, "name"]
    value: Annotated[Content, "value"]


class Record(TypedDict):
    """A record as stored in the log."""

    partition: Annotated[int, "partition"]
    offset: Annotated[int, "offset"]
    timestamp_ms: Annotated[int, "timestamp"]
    timestamp_type: Annotated[Literal["CreateTime", "LogAppendTime"], "who set the timestamp"]
    key: Annotated[Content, "key"]
    value: Annotated[Content, "value"]
    headers: Annotated[list[Header], "headers in order"]
    producer_id: Annotated[int | None, "producer id, null for a producer without idempotence"]
    is_transactional: Annotated[bool, "whether the record belongs to a transaction"]


class Records(TypedDict):
    """Records of a topic, read from all partitions or from one partition.

    `next` is set while there is more to read, also if no record of this page matches the filters. A
    client that waits for new records repeats the request with `tail`.
    """

    records: Annotated[list[Record], "the records that match, by partition and offset"]
    scanned: Annotated[int, "records that were looked at"]
    next: Annotated[str | None, "the value of `after` to go on; null at the end of the topic"]
    tail: Annotated[str, "the value of `after` that goes on after these records at any time"]


class NewRecord(TypedDict):
    """A record to write. If the key or value is null or missing, Kafka's null is written."""

    key: NotRequired[Annotated[Any, "key, in the format of the request"]]
    value: NotRequired[Annotated[Any, "value, in the format of the request"]]
    headers: NotRequired[Annotated[list[list[Any]] | None, "pairs of a name and a value"]]
    partition: NotRequired[Annotated[int | None, "partition; by default the key selects it"]]
    timestamp_ms: NotRequired[Annotated[int | None, "timestamp; by default the broker's time"]]


class NewRecords(TypedDict):
    """Records to write."""

    records: Annotated[list[NewRecord], "the records"]
    format: NotRequired[
        Annotated[
            Literal["base64", "text", "json", "hex"],
            "how keys, values and headers are written: base64 (default), text as UTF-8, json for "
            "any JSON value, hex",
        ]
    ]


class Written(TypedDict):
    """The partition and offset of a written record."""

    partition: Annotated[int, "partition"]
    offset: Annotated[int, "offset"]
    timestamp_ms: Annotated[int, "timestamp"]


class WrittenRecords(TypedDict):
    """The partition and offset of each written record, in the order of the request."""

    records: Annotated[list[Written], "the places"]


class RecordsDeleted(TypedDict):
    """The new log start offset of a partition."""

    topic: Annotated[str, "topic"]
    partition: Annotated[int, "partition"]
    start_offset: Annotated[int, "log start offset"]
