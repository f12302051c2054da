"""kafka-delete-records.sh: delete the records before given offsets (Kafka's DeleteRecordsCommand).

Partitions are printed in sorted order; Kafka prints them in hash table order. A missing partition
is an error at once. Kafka's client looks for the partition for a minute.
"""

from __future__ import annotations

from contextlib import closing
from functools import partial

from coordinator_server.client import Client, ClientError, check
from coordinator_server.kafka_tools import jackson
from coordinator_server.kafka_tools.frame import (
    BOOTSTRAP_SERVER,
    COMMAND_CONFIG,
    ToolError,
    ToolSpec,
    connect,
    java_class,
)
from coordinator_server.kafka_tools.java import log
from coordinator_server.kafka_tools.options import Option, Options
from protocol.errors import ErrorCode

_REFUSED = "org.apache.kafka.tools.AdminOperationException"
_FAILED = "org.apache.kafka.tools.AdminCommandFailedException"

OPTIONS = (
    BOOTSTRAP_SERVER._replace(argument="server(s) to use for bootstrapping"),
    COMMAND_CONFIG._replace(argument="command config property file path"),
    Option(
        "offset-json-file",
        "REQUIRED: a JSON file with the first offset to keep (-1: the end) of each partition:"
        ' {"version": 1, "partitions": [{"topic": "foo", "partition": 1, "offset": 1}]}',
        argument="Offset json file path",
    ),
)

Partition = tuple[str, int]


def run(options: Options) -> int:
    """Delete the records and print each partition's new low watermark."""
    options.required("bootstrap-server", "offset-json-file")
    with closing(connect(options)) as client:
        offsets = _read(options.value("offset-json-file") or "")
        print("Executing records delete operation")
        results = _delete(client, offsets)
    print("Records delete operation completed:")
    for (topic, index), result in sorted(results.items()):
        if isinstance(result, ClientError):
            print(f"partition: {topic}-{index}\terror: {java_class(result)}: {result}")
        else:
            print(f"partition: {topic}-{index}\tlow_watermark: {result}")
    return 0


def _delete(client: Client, offsets: dict[Partition, int]) -> dict[Partition, int | ClientError]:
    """Return each partition's new low watermark, or its error."""
    results: dict[Partition, int | ClientError] = {}
    for partition, offset in offsets.items():
        try:
            results[partition] = client.call(
                "deleteRecords(api=METADATA)",
                partial(_delete_one, client, partition, offset),
            )
        except ClientError as error:
            results[partition] = error
    return results


def _delete_one(client: Client, partition: Partition, offset: int) -> int | ClientError:
    from protocol.apis.delete_records import (
        DeleteRecordsPartition,
        DeleteRecordsRequest,
        DeleteRecordsTopic,
    )

    topic, index = partition
    try:
        (node_id,) = client.leaders([partition])
        request = DeleteRecordsRequest(
            topics=[
                DeleteRecordsTopic(
                    name=topic,
                    partitions=[DeleteRecordsPartition(partition_index=index, offset=offset)],
                )
            ],
            timeout_ms=client.settings.request_timeout_ms,
        )
        answer = client.ask(request, node_id).topics[0].partitions[0]
        check(answer.error_code)
    except ClientError as error:
        if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return error
        if not error.code.retriable:
            log(
                "ERROR",
                f"[AdminClient clientId={client.settings.client_id}] DeleteRecords request for"
                f" topic partition {topic}-{index} failed due to an unexpected"
                f" error {error.code.name}",
                "org.apache.kafka.clients.admin.internals.DeleteRecordsHandler",
            )
        raise
    return int(answer.low_watermark)


def _read(path: str) -> dict[Partition, int]:
    """Return the offsets in the file.

    Raises ToolError with the class and message of Kafka's tool.
    """
    text = jackson.read_file(path)
    try:
        document = jackson.parse(text)
    except ToolError:
        raise ToolError(_REFUSED, "The input string is not a valid JSON") from None
    document = jackson.as_object(document)
    version = jackson.integer(document.get("version", 1))
    if version != 1:
        raise ToolError(_REFUSED, f"Not supported version field value {version}")
    if "partitions" not in document:
        raise ToolError(_REFUSED, "Missing partitions field")
    offsets: dict[Partition, int] = {}
    twice: dict[str, None] = {}
    for item in map(jackson.as_object, jackson.as_array(document["partitions"])):
        topic = jackson.string(jackson.field(item, "topic"))
        index = jackson.integer(jackson.field(item, "partition"))
        offset = jackson.integer(jackson.field(item, "offset"), 64)
        if (topic, index) in offsets:
            twice[f"{topic}-{index}"] = None
        offsets.setdefault((topic, index), offset)
    if twice:
        message = f"Offset json file contains duplicate topic partitions: {','.join(twice)}"
        raise ToolError(_FAILED, message)
    return offsets


TOOL = ToolSpec(
    "kafka-delete-records",
    OPTIONS,
    run,
    "This tool helps to delete records of the given partitions down to the specified offset.",
)
