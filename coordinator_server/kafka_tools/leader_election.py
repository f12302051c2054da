"""kafka-leader-election.sh: elect partition leaders (Kafka's LeaderElectionCommand)."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from contextlib import closing

from coordinator_server.client import Client, ClientError, ClientSettings, check
from coordinator_server.kafka_tools import jackson
from coordinator_server.kafka_tools.frame import (
    BOOTSTRAP_SERVER,
    COMMAND_CONFIG,
    EXECUTION,
    ToolError,
    ToolSpec,
    connect,
    java_class,
    raise_wrapped,
)
from coordinator_server.kafka_tools.java import in_hash_order
from coordinator_server.kafka_tools.options import Option, Options, OptionsError
from protocol.errors import ErrorCode

_FAILED = "org.apache.kafka.tools.AdminCommandFailedException"
_REFUSED = "org.apache.kafka.tools.AdminOperationException"
_RUNTIME = "java.lang.RuntimeException"
_DEPRECATED = (
    "Option --admin.config has been deprecated and will be removed in a future version. "
    "Use --command-config instead."
)
_TYPES = ("PREFERRED", "UNCLEAN")
_WHICH = ("topic", "all-topic-partitions", "path-to-json-file")
_TIMEOUTS = ClientSettings(default_api_timeout_ms=30_000, request_timeout_ms=15_000)

OPTIONS = (
    BOOTSTRAP_SERVER._replace(argument="host:port"),
    COMMAND_CONFIG._replace(argument="Config file"),
    Option(
        "admin.config",
        "Deprecated name of --command-config.",
        argument="config file",
    ),
    Option(
        "path-to-json-file",
        'A JSON file with the partitions: {"partitions": [{"topic": "foo", "partition": 1}]}',
        argument="Path to JSON file",
    ),
    Option("topic", "The topic of the partition; needs --partition.", argument="topic name"),
    Option("partition", "The partition; needs --topic.", argument="partition id", kind="int"),
    Option("all-topic-partitions", "Elect leaders of all partitions that need it."),
    Option(
        "election-type",
        "REQUIRED: preferred elects the first replica; unclean elects any running "
        "replica of a partition without a leader.",
        argument="election type",
    ),
)

Place = tuple[str, int]


def run(options: Options) -> int:
    """Elect leaders and print the result of each partition."""
    kind = _validated(options)
    places = None
    path, topic = options.value("path-to-json-file"), options.value("topic")
    if path is not None:
        places = _read(path)
    elif topic is not None:
        places = [(topic, options.integer("partition") or 0)]
    config = "command-config"
    if options.has("admin.config"):
        config = "admin.config"
        print(_DEPRECATED)
    with closing(connect(options, config=config, settings=_TIMEOUTS)) as client:
        results = _elect(client, kind, places)
    return _print(kind, results)


def _validated(options: Options) -> str:
    """Return the election type. Raises ToolError with Kafka's message for missing options."""
    options.excludes("admin.config", "command-config")
    kind = options.value("election-type")
    required = ("bootstrap-server", "election-type")
    missing = [name for name in required if not options.has(name)]
    if missing:
        raise ToolError(_FAILED, f"Missing required option(s): {', '.join(missing)}")
    assert kind is not None
    if sum(options.has(name) for name in _WHICH) != 1:
        text = f"One and only one of the following options is required: {', '.join(_WHICH)}"
        raise ToolError(_FAILED, text)
    if options.has("topic") and not options.has("partition"):
        raise ToolError(_FAILED, "Missing required option(s): partition")
    if options.has("partition") and not options.has("topic"):
        raise ToolError(_FAILED, "Option partition is only allowed if topic is used")
    options.integer("partition")
    if kind.upper() not in _TYPES:
        text = f"Cannot parse argument '{kind}' of option election-type"
        raise OptionsError("OptionArgumentConversionException", text)
    return kind.upper()


def _elect(
    client: Client, kind: str, places: list[Place] | None
) -> dict[Place, ClientError | None]:
    """Elect leaders and return each partition's error or None.

    Raises ToolError like Kafka's tool.
    """
    from protocol.apis.elect_leaders import ElectLeadersRequest, TopicPartitions

    asked = None
    if places is not None:
        topics: dict[str, list[int]] = {}
        for topic, partition in places:
            topics.setdefault(topic, []).append(partition)
        asked = [TopicPartitions(topic=name, partitions=some) for name, some in topics.items()]
    request = ElectLeadersRequest(
        election_type=_TYPES.index(kind),
        topic_partitions=asked,
        timeout_ms=client.settings.request_timeout_ms,
    )
    results: dict[Place, ClientError | None] = {}
    try:
        answer = client.ask_controller("electLeaders", request)
        check(answer.error_code)
        for topic in answer.replica_election_results:
            for result in topic.partition_result:
                error = (
                    ClientError(result.error_code, result.error_message)
                    if result.error_code
                    else None
                )
                results[topic.topic, result.partition_id] = error
    except ClientError as error:
        if error.code is ErrorCode.REQUEST_TIMED_OUT:
            _fail("Timeout waiting for election results", error)
        if error.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            _fail("Not authorized to perform leader election", None)
        raise_wrapped(error, EXECUTION, _RUNTIME)
    return results


def _fail(message: str, cause: ClientError | None) -> None:
    print(message)
    raise ToolError(_FAILED, message) from cause


def _print(kind: str, results: dict[Place, ClientError | None]) -> int:
    """Print the results like Kafka's tool and return the exit code."""
    succeeded, valid = [], []
    failed: list[tuple[Place, ClientError]] = []
    for place in in_hash_order(results):
        error = results[place]
        if error is None:
            succeeded.append(place)
        elif error.code is ErrorCode.ELECTION_NOT_NEEDED:
            valid.append(place)
        else:
            failed.append((place, error))
    if succeeded:
        text = f"Successfully completed leader election ({kind}) for partitions"
        print(f"{text} {_joined(succeeded)}")
    if valid:
        print(f"Valid replica already elected for partitions {_joined(valid)}")
    if not failed:
        return 0
    message = f"{len(failed)} replica(s) could not be elected"
    text = f"Error completing leader election ({kind}) for partition:"
    errors = {}
    for place in in_hash_order(dict(failed)):
        error = dict(failed)[place]
        errors[place] = f"{java_class(error)}: {error}"
        print(f"{text} {_joined([place])}: {errors[place]}")
    print(f"{message}\n{_FAILED}: {message}", file=sys.stderr)
    for shown in errors.values():
        print(f"\tSuppressed: {shown}", file=sys.stderr)
    print(file=sys.stderr)
    return 1


def _joined(places: Iterable[Place]) -> str:
    return ", ".join(f"{topic}-{partition}" for topic, partition in in_hash_order(places))


def _read(path: str) -> list[Place]:
    """Return the partitions in the file.

    Raises ToolError with the class and message of Kafka's tool.
    """
    try:
        text = jackson.read_file(path)
    except ToolError as error:
        raise_wrapped(error, _RUNTIME)
    try:
        document = jackson.parse(text)
    except ToolError:
        raise ToolError(_REFUSED, "Replica election data is empty") from None
    try:
        document = jackson.as_object(document)
        if "partitions" not in document:
            raise ToolError(_REFUSED, 'Replica election data is missing "partitions" field')
        items = map(jackson.as_object, jackson.as_array(document["partitions"]))
        places = [
            (
                jackson.string(jackson.field(item, "topic")),
                jackson.integer(jackson.field(item, "partition")),
            )
            for item in items
        ]
    except ToolError as error:
        if error.java_class == _REFUSED:
            raise
        raise_wrapped(error, _RUNTIME)
    twice = in_hash_order({place for place in places if places.count(place) > 1})
    if twice:
        shown = f"[{', '.join(f'{topic}-{partition}' for topic, partition in twice)}]"
        text = f"Replica election data contains duplicate partitions: {shown}"
        raise ToolError(_REFUSED, text)
    return places


TOOL = ToolSpec(
    "kafka-leader-election",
    OPTIONS,
    run,
    "This tool attempts to elect a new leader for a set of topic partitions. The type of elections "
    "supported are preferred replicas and unclean replicas.",
)
