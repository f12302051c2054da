"""AlterConfigs and IncrementalAlterConfigs: Kafka's responses, and the effect of changes."""

from __future__ import annotations

import pytest

from coordinator_server.topics.config_requests import ConfigOperation
from protocol.apis import alter_configs as alter
from protocol.apis import incremental_alter_configs as incremental
from protocol.errors import ErrorCode
from storage.errors import RecordListTooLargeError
from storage.memory_disk import MemoryDisk
from tests.harness.broker import MemoryBroker
from tests.harness.clock import START_MS
from tests.harness.records import batch

TOPIC, BROKER, LOGGER, GROUP = 2, 4, 8, 32
SET, DELETE, APPEND, SUBTRACT = range(4)

Outcome = tuple[int, str | None]
Given = tuple[str, int, str | None]


def broker(disk: MemoryDisk | None = None) -> MemoryBroker:
    """Return a broker with topic "t"."""
    made = MemoryBroker(disk)
    made.topics.create("t", 1, {})
    return made


def change(
    made: MemoryBroker, *changes: Given, kind: int = TOPIC, name: str = "t", check: bool = False
) -> Outcome:
    """Send IncrementalAlterConfigs for one resource; return its error code and message."""
    resource = incremental.AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[
            incremental.AlterableConfig(name=config, config_operation=operation, value=value)
            for config, operation, value in changes
        ],
    )
    request = incremental.IncrementalAlterConfigsRequest(resources=[resource], validate_only=check)
    answer = made.ask(request, 1).responses[0]
    assert (answer.resource_type, answer.resource_name) == (kind, name)
    return answer.error_code, answer.error_message


def replace(
    made: MemoryBroker,
    *configs: tuple[str, str | None],
    kind: int = TOPIC,
    name: str = "t",
    check: bool = False,
) -> Outcome:
    """Send AlterConfigs for one resource; return its error code and message."""
    resource = alter.AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[alter.AlterableConfig(name=config, value=value) for config, value in configs],
    )
    request = alter.AlterConfigsRequest(resources=[resource], validate_only=check)
    answer = made.ask(request, 2).responses[0]
    return answer.error_code, answer.error_message


def own(made: MemoryBroker) -> dict[str, str]:
    """Return the topic's own configs."""
    topic = made.topics.topic("t")
    assert topic is not None
    return dict(topic.configs)


def test_configs_are_set_and_deleted() -> None:
    """A change leaves other configs alone, and deleting a config that was never set succeeds."""
    made = broker()
    assert change(made, ("retention.ms", SET, " 1000 "), ("flush.ms", SET, "5")) == (0, None)
    assert own(made) == {"retention.ms": "1000", "flush.ms": "5"}
    assert change(made, ("retention.ms", DELETE, "ignored"), ("nope", DELETE, None)) == (0, None)
    assert own(made) == {"flush.ms": "5"}
    assert change(made) == (0, None)


def test_lists_grow_and_shrink() -> None:
    """APPEND starts from the default and adds an item once; SUBTRACT ignores missing items."""
    made = broker()
    policy = "cleanup.policy"
    for operation, value, expected in (
        (APPEND, "compact", "delete,compact"),
        (APPEND, "compact", "delete,compact"),
        (SUBTRACT, "delete", "compact"),
        (SUBTRACT, "nothing", "compact"),
        (SET, "delete, compact", "delete,compact"),
        (SUBTRACT, "delete,compact", ""),
        (SUBTRACT, "", ""),
        (APPEND, " compact , delete ", "compact,delete"),
    ):
        assert change(made, (policy, operation, value)) == (0, None)
        assert own(made)[policy] == expected
    throttled = "follower.replication.throttled.replicas"
    assert change(made, (throttled, APPEND, "0:1")) == (0, None)
    assert own(made)[throttled] == "0:1"


@pytest.mark.parametrize(
    ("changes", "code", "message"),
    [
        (
            [("retention.ms", APPEND, "5")],
            ErrorCode.INVALID_CONFIG,
            "Can't APPEND to key retention.ms because its type is not LIST.",
        ),
        (
            [("nope", SUBTRACT, "a")],
            ErrorCode.INVALID_CONFIG,
            "Can't SUBTRACT to key nope because its type is not LIST.",
        ),
        (
            [("retention.ms", SET, "x")],
            ErrorCode.INVALID_CONFIG,
            "Invalid value x for configuration retention.ms: Not a number of type LONG",
        ),
        (
            [("retention.ms", SET, None)],
            ErrorCode.INVALID_REQUEST,
            "Null value not supported for : retention.ms",
        ),
        (
            [("cleanup.policy", SET, "compact,")],
            ErrorCode.INVALID_CONFIG,
            "Configuration 'cleanup.policy' values must not be empty.",
        ),
        (
            [("cleanup.policy", APPEND, "")],
            ErrorCode.INVALID_CONFIG,
            "Configuration 'cleanup.policy' values must not be empty.",
        ),
        (
            [("compression.gzip.level", SET, "0")],
            ErrorCode.INVALID_CONFIG,
            "Invalid value 0 for configuration compression.gzip.level: "
            "Value must be between 1 and 9 or equal to -1",
        ),
        ([("retention.ms", 9, "5")], ErrorCode.UNKNOWN_SERVER_ERROR, None),
        ([("nope", SET, "5")], ErrorCode.INVALID_CONFIG, "Unknown topic config name: nope"),
        (
            [("flush.ms", SET, "7"), ("segment.bytes", SET, "5")],
            ErrorCode.INVALID_CONFIG,
            "Invalid value 5 for configuration segment.bytes: Value must be at least 1048576",
        ),
        (
            [("flush.ms", SET, "7"), ("flush.ms", DELETE, None)],
            ErrorCode.INVALID_REQUEST,
            "Error due to duplicate config keys",
        ),
        (
            [("remote.storage.enable", SET, "true")],
            ErrorCode.INVALID_CONFIG,
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage.",
        ),
    ],
)
def test_bad_changes_are_refused(changes: list[Given], code: int, message: str | None) -> None:
    """A config change leaves other configs alone; deleting a config that was never set succeeds."""
    made = broker()
    assert change(made, *changes) == (code, message)
    assert own(made) == {}


@pytest.mark.parametrize(
    ("kind", "name", "code", "message"),
    [
        (TOPIC, "no", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The topic 'no' does not exist."),
        (TOPIC, "", ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed."),
        (
            TOPIC,
            "a b",
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            "Topic name is invalid: 'a b' contains one or more characters other than ASCII "
            "alphanumerics, '.', '_' and '-'",
        ),
        (
            BROKER,
            "7",
            ErrorCode.INVALID_REQUEST,
            "Unexpected broker id, expected 1, but received 7",
        ),
        (BROKER, "x", ErrorCode.INVALID_REQUEST, "Node id must be an integer, but it is: x"),
        (GROUP, "", ErrorCode.INVALID_REQUEST, "Default group resources are not allowed."),
        (3, "x", ErrorCode.INVALID_REQUEST, "Unknown resource type 3"),
    ],
)
def test_resources_that_cannot_be_changed(kind: int, name: str, code: int, message: str) -> None:
    """Both APIs refuse the same resources with the same errors."""
    made = broker()
    assert change(made, ("flush.ms", SET, "7"), kind=kind, name=name) == (code, message)
    assert replace(made, ("flush.ms", "7"), kind=kind, name=name) == (code, message)


@pytest.mark.parametrize("operation", [APPEND, SUBTRACT])
def test_what_a_broker_and_its_loggers_have_is_not_appended_to(operation: int) -> None:
    """APPEND and SUBTRACT need a config of type list; DELETE of an unset config succeeds."""
    made = broker()
    done = ConfigOperation(operation).name
    no_list = f"Config value {done.lower()} is not allowed for config key: node.id"
    given = ("node.id", operation, "7")
    assert change(made, given, kind=BROKER, name="1") == (ErrorCode.INVALID_CONFIG, no_list)
    unknown = (ErrorCode.INVALID_CONFIG, "Unknown config name: flush.ms")
    assert change(made, ("flush.ms", operation, "1"), kind=BROKER, name="1") == unknown
    assert change(made, ("node.id", DELETE, None), kind=BROKER, name="1") == (0, None)
    text = f"{done} operation is not allowed for the BROKER_LOGGER resource"
    refused = (ErrorCode.INVALID_REQUEST, text)
    assert change(made, ("kafka", operation, "INFO"), kind=LOGGER, name="1") == refused


@pytest.mark.parametrize("check", [False, True])
def test_configs_that_contradict_each_other(check: bool) -> None:
    """Configs that contradict each other are refused, also with validate_only."""
    made = broker()
    message = "conflict topic config setting min.compaction.lag.ms (9) > max.compaction.lag.ms (8)"
    configs = {"min.compaction.lag.ms": "9", "max.compaction.lag.ms": "8"}
    refused = (ErrorCode.INVALID_CONFIG, message)
    assert (
        change(made, *((one, SET, text) for one, text in configs.items()), check=check) == refused
    )
    assert replace(made, *configs.items(), check=check) == refused
    assert own(made) == {}


def test_loggers_that_cannot_be_changed() -> None:
    """Only the root logger can be changed, and AlterConfigs refuses loggers entirely."""
    made = broker()
    given = ("kafka", SET, "INFO")
    missing = (ErrorCode.INVALID_CONFIG, "Logger kafka does not exist!")
    assert change(made, given, kind=LOGGER, name="1") == missing
    not_a_number = (ErrorCode.INVALID_REQUEST, "Node id must be an integer, but it is: ")
    assert change(made, given, kind=LOGGER, name="") == not_a_number
    elsewhere = (ErrorCode.INVALID_REQUEST, "Unexpected node id. Expected 1, but received 7")
    assert change(made, given, kind=LOGGER, name="7") == elsewhere
    unknown = (ErrorCode.INVALID_REQUEST, "Unknown resource type 8")
    assert replace(made, ("kafka", "INFO"), kind=LOGGER, name="1") == unknown


def test_alter_configs_replaces_all() -> None:
    """AlterConfigs resets every config that the request does not name to its default."""
    made = broker()
    assert replace(made, ("retention.ms", "5"), ("flush.ms", "6")) == (0, None)
    assert replace(made, ("flush.ms", "7")) == (0, None)
    assert own(made) == {"flush.ms": "7"}
    message = "Null value not supported for : retention.ms"
    assert replace(made, ("retention.ms", None)) == (ErrorCode.INVALID_REQUEST, message)
    assert own(made) == {"flush.ms": "7"}
    assert replace(made) == (0, None)
    assert own(made) == {}


def test_checking_changes_nothing() -> None:
    """validate_only changes nothing and gives the same response as the change."""
    made = broker()
    assert change(made, ("flush.ms", SET, "7"), check=True) == (0, None)
    assert replace(made, ("flush.ms", "7"), check=True) == (0, None)
    assert replace(made, ("nope", "7"), check=True)[0] == ErrorCode.INVALID_CONFIG
    assert own(made) == {}


def test_a_resource_that_stands_twice_is_not_changed() -> None:
    """A resource that is named twice is not changed; the other resources are."""
    made = broker()
    made.topics.create("u", 1, {})
    resources = [
        incremental.AlterConfigsResource(
            resource_type=TOPIC,
            resource_name=name,
            configs=[incremental.AlterableConfig(name="flush.ms", config_operation=0, value="3")],
        )
        for name in ("u", "u", "t")
    ]
    request = incremental.IncrementalAlterConfigsRequest(resources=resources)
    answers = made.ask(request, 0).responses
    twice = (ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
    told = [(answer.error_code, answer.error_message) for answer in answers]
    assert told == [twice, twice, (0, None)]
    assert own(made) == {"flush.ms": "3"}


def test_new_configs_hold_at_once_and_for_good() -> None:
    """New configs apply to an open log at once, and survive a restart."""
    disk = MemoryDisk()
    made = broker(disk)
    log = made.topics.log("t", 0)
    assert change(made, ("internal.segment.bytes", SET, "20")) == (0, None)
    with pytest.raises(RecordListTooLargeError):
        log.append(batch(b"v"), START_MS)
    made.topics.close()
    assert own(MemoryBroker(disk)) == {"internal.segment.bytes": "20"}


def test_a_full_disk_changes_nothing() -> None:
    """A write error is returned to the client, and the topic keeps its configs."""
    disk = MemoryDisk()
    made = broker(disk)
    disk.fail_at(0)
    assert change(made, ("flush.ms", SET, "7"))[0] == ErrorCode.KAFKA_STORAGE_ERROR
    assert own(made) == {}
