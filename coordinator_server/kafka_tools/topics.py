"""kafka-topics.sh: create, list, describe, change and delete topics (Kafka's TopicCommand).

Topics are printed in sorted order; Kafka prints them in hash table order.
"""

from __future__ import annotations

import re
import sys

from coordinator_server.client import Client, ClientError, check
from coordinator_server.kafka_tools.filters import INTERNAL_TOPICS, known_topics, topic_filter
from coordinator_server.kafka_tools.frame import (
    BOOTSTRAP_SERVER,
    COMMAND_CONFIG,
    FAILURES,
    Failure,
    ToolError,
    ToolSpec,
    connect,
    illegal_argument,
    java_class,
    parse_integer,
)
from coordinator_server.kafka_tools.java import log
from coordinator_server.kafka_tools.options import Option, Options, UsageError
from coordinator_server.kafka_tools.topics_description import describe
from protocol.errors import ErrorCode

ACTIONS = ("list", "describe", "create", "alter", "delete")
REPORTS = (
    "under-replicated-partitions",
    "under-min-isr-partitions",
    "at-min-isr-partitions",
    "unavailable-partitions",
)
SEE_CONFIGS = " (To alter topic configurations, the kafka-configs tool can be used.)"
MAX_REPLICATION_FACTOR = 32_767

OPTIONS = (
    BOOTSTRAP_SERVER,
    COMMAND_CONFIG,
    Option("list", "List the topics."),
    Option("describe", "Print the partitions, replicas and settings of topics."),
    Option("create", "Create a topic."),
    Option("alter", "Add partitions to a topic."),
    Option("delete", "Delete topics."),
    Option("topic", "The topic; a regular expression, except with --create.", argument="topic"),
    Option("topic-id", "The id of the topic to describe.", argument="topic-id"),
    Option(
        "config",
        "A config of the topic to create; may be repeated. See docs/settings.md.",
        argument="name=value",
    ),
    Option(
        "delete-config",
        "Accepted without effect since Kafka 4.0: use kafka-configs.",
        argument="name",
    ),
    Option(
        "partitions",
        "The number of partitions (default: num.partitions of the broker). Adding "
        "partitions changes the partition of most keys.",
        argument="# of partitions",
        kind="int",
    ),
    Option(
        "replication-factor",
        "The number of replicas of each partition (default: default.replication.factor "
        "of the broker).",
        argument="replication factor",
        kind="int",
    ),
    Option(
        "replica-assignment",
        "The broker ids of each partition: replicas separated by colons, partitions by commas.",
        argument="broker_id_for_part1_replica1 : broker_id_for_part1_replica2 , ...",
    ),
    Option("under-replicated-partitions", "Describe only partitions with an out-of-sync replica."),
    Option("unavailable-partitions", "Describe only partitions without a live leader."),
    Option(
        "under-min-isr-partitions",
        "Describe only partitions with fewer in-sync replicas than min.insync.replicas.",
    ),
    Option(
        "at-min-isr-partitions",
        "Describe only partitions with exactly min.insync.replicas in-sync replicas.",
    ),
    Option(
        "topics-with-overrides", "Describe only topics with configs that differ from the defaults."
    ),
    Option("if-exists", "Do not fail if the topic does not exist (--alter, --delete, --describe)."),
    Option("if-not-exists", "Do not fail if the topic exists (--create)."),
    Option("exclude-internal", "Omit internal topics (--list, --describe)."),
    Option(
        "partition-size-limit-per-response",
        "The maximum number of partitions in one response.",
        argument="maximum number of partitions per response",
        kind="int",
    ),
)


def run(options: Options) -> int:
    """Run the action that the options select and return the exit code."""
    _check_arguments(options)
    client = connect(options)
    try:
        if options.has("create"):
            _create(client, options)
        elif options.has("alter"):
            _alter(client, options)
        elif options.has("list"):
            print("\n".join(_topics(client, options)))
        elif options.has("describe"):
            _describe(client, options)
        else:
            _delete(client, options)
    except FAILURES as error:
        return _print_failure(error)
    finally:
        client.close()
    return 0


def _print_failure(error: Failure) -> int:
    print(f"Error while executing topic command : {error}")
    log("ERROR", f"{java_class(error)}: {error}\n", "org.apache.kafka.tools.TopicCommand")
    return 1


def _check_arguments(options: Options) -> None:
    """Reject invalid option combinations, in the order of Kafka's TopicCommandOptions."""
    if sum(map(options.has, ACTIONS)) != 1:
        raise UsageError(
            "Command must include exactly one action: --list, --describe, --create, --alter or"
            " --delete"
        )
    if options.has("delete-config"):
        print(
            "delete-config option is no longer supported and deprecated since version 4.0. The"
            " config will be fully removed in future releases.",
            file=sys.stderr,
        )
    if not options.has("bootstrap-server"):
        illegal_argument("--bootstrap-server must be specified")
    if options.has("describe") and options.has("if-exists"):
        if not options.has("topic") and not options.has("topic-id"):
            raise UsageError("--topic or --topic-id is required to describe a topic")
        if options.has("topic") and options.has("topic-id"):
            print(
                "Only topic id will be used when both --topic and --topic-id are specified and"
                " topicId is not Uuid.ZERO_UUID"
            )
    if not options.has("list") and not options.has("describe"):
        options.required("topic")
    if options.has("alter"):
        if options.has("config"):
            raise UsageError(
                'Option combination "[[config], [bootstrap-server]]" can\'t be used with option'
                f' "[alter]"{SEE_CONFIGS}'
            )
        options.required("partitions")
    for name, actions in {
        "config": ("alter", "create"),
        "partitions": ("alter", "create"),
        "replication-factor": ("create",),
        "replica-assignment": ("alter", "create"),
    }.items():
        _only_with(options, name, *actions)
    if options.has("create"):
        options.excludes("replica-assignment", "partitions", "replication-factor")
    for name in REPORTS:
        _only_with(options, name, "describe")
        options.excludes(name, "topics-with-overrides")
    _only_with(options, "topics-with-overrides", "describe")
    _only_with(options, "if-exists", "alter", "delete", "describe")
    _only_with(options, "if-not-exists", "create")
    _only_with(options, "exclude-internal", "list", "describe")


def _only_with(options: Options, name: str, *actions: str) -> None:
    options.excludes(name, *(action for action in ACTIONS if action not in actions))


def _topics(client: Client, options: Options) -> list[str]:
    """Return the sorted names of the selected topics."""
    excluded = options.has("exclude-internal")
    expression = options.value("topic")
    names = sorted(
        topic.name
        for topic in known_topics(client, expression)
        if not (excluded and (topic.is_internal or topic.name in INTERNAL_TOPICS))
    )
    return names if expression is None else list(filter(topic_filter(expression), names))


def _existing_topics(client: Client, options: Options) -> list[str]:
    """Return the sorted names of the selected topics.

    Raises ToolError if no topic matches, unless `--if-exists` is given.
    """
    names = _topics(client, options)
    if not names and options.value("topic") and not options.has("if-exists"):
        illegal_argument(f"Topic '{options.value('topic')}' does not exist as expected")
    return names


def _create(client: Client, options: Options) -> None:
    from protocol.apis.create_topics import (
        CreatableReplicaAssignment,
        CreatableTopic,
        CreatableTopicConfig,
        CreateTopicsRequest,
    )

    name = options.value("topic") or ""
    partitions = options.integer("partitions")
    replicas = options.integer("replication-factor")
    assignment = _assignment(options)
    configs = _configs(options)
    if "." in name or "_" in name:
        print(
            "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore"
            " ('_') could collide. To avoid issues it is best to use either, but not both."
        )
    if replicas is not None and not 1 <= replicas <= MAX_REPLICATION_FACTOR:
        illegal_argument(
            f"The replication factor must be between 1 and {MAX_REPLICATION_FACTOR} inclusive"
        )
    if partitions is not None and partitions < 1:
        illegal_argument("The partitions must be greater than 0")
    if not name:
        message = "The given topic name '' cannot be represented in a request."
        raise ClientError(ErrorCode.INVALID_TOPIC_EXCEPTION, message)
    topic = CreatableTopic(
        name=name,
        num_partitions=-1 if partitions is None else partitions,
        replication_factor=-1 if replicas is None else replicas,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=brokers)
            for index, brokers in enumerate(assignment)
        ],
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
    )
    # Before CreateTopics 4, brokers have no defaults for partitions and replicas.
    use_defaults = partitions is None or replicas is None
    request = CreateTopicsRequest(topics=[topic], timeout_ms=client.settings.request_timeout_ms)
    answer = client.ask_controller("createTopics", request, min_version=4 if use_defaults else 0)
    (result,) = answer.topics
    if result.error_code == ErrorCode.TOPIC_ALREADY_EXISTS and options.has("if-not-exists"):
        return
    if result.error_code == ErrorCode.INVALID_CONFIG and "Invalid value " in (
        result.error_message or ""
    ):  # Kafka's tool validates topic configs before it sends the request
        name = "org.apache.kafka.common.config.ConfigException"
        raise ToolError(name, result.error_message)
    check(result.error_code, result.error_message)
    print(f"Created topic {name}.")


def _configs(options: Options) -> dict[str, str]:
    configs = {}
    for text in options.values("config"):
        pair = re.split(r"\s*=\s*", text)
        while pair and not pair[-1]:  # Java's String.split drops empty parts at the end
            pair.pop()
        if len(pair) != 2:
            illegal_argument(
                "requirement failed: Invalid topic config: all configs to be added must be in the"
                ' format "key=val".'
            )
        configs[pair[0].strip()] = pair[1].strip()
    return configs


def _assignment(options: Options) -> list[list[int]]:
    """Parse `--replica-assignment` into the broker ids of each partition. Raises ToolError."""
    text = options.value("replica-assignment")
    assignment: list[list[int]] = []
    for index, partition in enumerate(text.split(",") if text else ()):
        brokers = [parse_integer(part.strip()) for part in partition.split(":")]
        twice = [str(broker) for broker in dict.fromkeys(brokers) if brokers.count(broker) > 1]
        if twice:
            raise ToolError(
                "org.apache.kafka.tools.AdminCommandFailedException",
                f"Partition replica lists may not contain duplicate entries: {','.join(twice)}",
            )
        assignment.append(brokers)
        if len(brokers) != len(assignment[0]):
            raise ToolError(
                "org.apache.kafka.tools.AdminOperationException",
                f"Partition {index} has different replication factor: {brokers}",
            )
    return assignment


def _alter(client: Client, options: Options) -> None:
    from protocol.apis.create_partitions import (
        CreatePartitionsAssignment,
        CreatePartitionsRequest,
        CreatePartitionsTopic,
    )

    count = options.integer("partitions") or 0
    assignment = _assignment(options)
    names = _existing_topics(client, options)
    if not names:
        return
    present: dict[str, int] = {}
    if assignment:
        answer = client.call("describeTopics", lambda: client.metadata(names))
        for topic in answer.topics:
            check(topic.error_code)
            present[topic.name] = len(topic.partitions)
    topics = [
        CreatePartitionsTopic(
            name=name,
            count=count,
            assignments=[
                CreatePartitionsAssignment(broker_ids=brokers)
                for brokers in assignment[present[name] :]
            ]
            if assignment
            else None,
        )
        for name in names
    ]
    request = CreatePartitionsRequest(topics=topics, timeout_ms=client.settings.request_timeout_ms)
    for result in client.ask_controller("createPartitions", request).results:
        check(result.error_code, result.error_message)


def _describe(client: Client, options: Options) -> None:
    from coordinator_server.kafka_tools.java import parse_uuid
    from protocol.schema import ZERO_UUID

    topic_id = ZERO_UUID
    text = options.value("topic-id")
    if text is not None:
        try:
            topic_id = parse_uuid(text)
        except ValueError as error:
            illegal_argument(str(error))
    if topic_id == ZERO_UUID:
        describe(client, options, _existing_topics(client, options))
        return
    known = client.call("listTopics", lambda: client.metadata(None)).topics
    if any(topic.topic_id == topic_id for topic in known):
        describe(client, options, [topic_id])
    elif not options.has("if-exists"):
        illegal_argument(f"TopicId '{text}' does not exist as expected")


def _delete(client: Client, options: Options) -> None:
    from protocol.apis.delete_topics import DeleteTopicsRequest, DeleteTopicState

    names = _existing_topics(client, options)
    if not names:
        return
    request = DeleteTopicsRequest(
        topics=[DeleteTopicState(name=name) for name in names],
        topic_names=names,
        timeout_ms=client.settings.request_timeout_ms,
    )
    for result in client.ask_controller("deleteTopics", request).responses:
        check(result.error_code, result.error_message)


TOOL = ToolSpec(
    "kafka-topics",
    OPTIONS,
    run,
    "This tool helps to create, delete, describe, or change a topic.",
    without_arguments="Create, delete, describe, or change a topic.",
)
