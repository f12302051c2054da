"""Per-group configs: allowed values, effective values, and persistence."""

from __future__ import annotations

import pytest

from coordinator_server.config.config import Config
from coordinator_server.config.group_configs import GroupConfigs
from coordinator_server.topics.topic_configs import log_defaults
from storage.errors import TopicConfigError
from storage.log_manager import LogManager
from storage.memory_disk import MemoryDisk
from storage.topic_catalogue import TopicCatalogue

DATA = "/data"


def group_configs(disk: MemoryDisk | None = None, **overrides: str) -> GroupConfigs:
    """Return the group configs of a data directory."""
    logs = LogManager.open(disk or MemoryDisk(), DATA, log_defaults(Config()))
    settings = {name.replace("_", "."): value for name, value in overrides.items()}
    return GroupConfigs(logs.catalogue, Config(overrides=settings))


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        (
            "consumer.sesion.timeout.ms",
            "1",
            "Unknown group config name: consumer.sesion.timeout.ms",
        ),
        ("consumer.session.timeout.ms", "x", "Not a number of type INT"),
        ("consumer.session.timeout.ms", "0", "Value must be at least 1"),
        (
            "consumer.session.timeout.ms",
            "44999",
            "consumer.session.timeout.ms must be in the range 45000 to 60000 inclusive.",
        ),
        (
            "consumer.heartbeat.interval.ms",
            "15001",
            "consumer.heartbeat.interval.ms must be in the range 5000 to 15000 inclusive.",
        ),
        (
            "share.assignment.interval.ms",
            "15001",
            "share.assignment.interval.ms must be in the range 0 to 15000 inclusive.",
        ),
        (
            "streams.num.standby.replicas",
            "3",
            "streams.num.standby.replicas must be less than or equal to 2",
        ),
        (
            "streams.task.offset.interval.ms",
            "14999",
            "streams.task.offset.interval.ms must be greater than or equal to 15000",
        ),
        (
            "streams.num.warmup.replicas",
            "21",
            "streams.num.warmup.replicas must be less than or equal to 20",
        ),
        ("share.delivery.count.limit", "11", "must be in the range 2 to 10 inclusive."),
        (
            "streams.assignor.name",
            "x",
            "streams.assignor.name 'x' is not a registered task assignor. Registered assignors "
            "are: [sticky].",
        ),
        (
            "streams.rack.aware.assignment.tags",
            "a,b , a",
            "streams.rack.aware.assignment.tags must not contain duplicate tag keys.",
        ),
        (
            "streams.rack.aware.assignment.tags",
            "a,",
            "Configuration 'streams.rack.aware.assignment.tags' values must not be empty.",
        ),
        (
            "errors.deadletterqueue.topic.name",
            "__x",
            "errors.deadletterqueue.topic.name: DLQ topic name must not start with '__'",
        ),
        (
            "errors.deadletterqueue.copy.record.enable",
            "maybe",
            "Expected value to be either true or false",
        ),
        ("share.auto.offset.reset", "by_duration:-PT1H", "must be either 'earliest', 'latest'"),
        ("share.auto.offset.reset", "by_duration:1 day", "must be either 'earliest', 'latest'"),
        ("share.auto.offset.reset", "none", "must be either 'earliest', 'latest'"),
        ("share.isolation.level", "serializable", "String must be one of: read_committed"),
        ("share.renew.acknowledge.enable", "yes", "Expected value to be either true or false"),
    ],
)
def test_a_bad_config_is_refused(name: str, value: str, message: str) -> None:
    """The error for an invalid group config names the config and the problem."""
    with pytest.raises(TopicConfigError) as refused:
        group_configs().check({name: value})
    assert message in refused.value.message


def test_good_configs_are_taken() -> None:
    """Values within the broker's bounds are accepted, as are configs without bounds."""
    group_configs().check(
        {
            "consumer.session.timeout.ms": "50000",
            "consumer.assignment.interval.ms": "0",
            "share.auto.offset.reset": "by_duration:P2DT0.5S",
            "share.isolation.level": "read_committed",
        }
    )


def test_a_session_is_longer_than_the_heartbeat_interval() -> None:
    """A group's session timeout must exceed the heartbeat interval, its own or the broker's."""
    configs = group_configs(
        group_consumer_min_session_timeout_ms="1", group_consumer_min_heartbeat_interval_ms="1"
    )
    with pytest.raises(TopicConfigError, match=r"must be greater than consumer\.heartbeat"):
        configs.check({"consumer.session.timeout.ms": "5000"})


def test_an_interval_of_the_broker_is_not_held_against_its_bounds() -> None:
    """A broker's assignment interval outside of its bounds does not fail other group configs."""
    configs = group_configs(group_share_assignment_interval_ms="20")
    configs.check({"share.delivery.count.limit": "3"})


def test_configs_are_kept() -> None:
    """Group configs survive a restart; a group without configs is forgotten."""
    disk = MemoryDisk()
    configs = group_configs(disk)
    configs.set(
        {"g": {"consumer.session.timeout.ms": "50000"}, "h": {"share.isolation.level": "x"}}
    )
    configs.set({"h": {}})
    disk.processes_died()
    kept = group_configs(disk)
    assert kept.own("g") == {"consumer.session.timeout.ms": "50000"}
    assert kept.own("h") == kept.of("h") == {}


def test_compaction_keeps_configs() -> None:
    """Compaction of the catalogue keeps the group configs."""
    disk = MemoryDisk()
    disk.mkdir(DATA)
    catalogue = TopicCatalogue(disk, DATA)
    for number in range(1200):
        catalogue.put_group_configs({"g": {"share.delivery.count.limit": str(number)}})
    dead = catalogue.is_mostly_dead
    for _ in catalogue.compaction_steps():
        pass
    assert (dead, catalogue.is_mostly_dead) == (True, False)
    assert TopicCatalogue(disk, DATA).group_configs == {"g": {"share.delivery.count.limit": "1199"}}


def test_a_value_out_of_bounds_by_now_counts_as_the_nearest() -> None:
    """A stored value outside the broker's current bounds has the effect of the nearest bound."""
    disk = MemoryDisk()
    own = {
        "consumer.session.timeout.ms": "50000",
        "streams.num.standby.replicas": "2",
        "share.isolation.level": "read_committed",
    }
    group_configs(disk).set({"g": own})
    disk.processes_died()
    configs = group_configs(
        disk,
        group_consumer_min_session_timeout_ms="55000",
        group_consumer_session_timeout_ms="55000",
        group_streams_max_standby_replicas="1",
    )
    assert configs.own("g") == own
    assert configs.of("g") == {
        "consumer.session.timeout.ms": "55000",
        "streams.num.standby.replicas": "1",
        "share.isolation.level": "read_committed",
    }


def test_all_can_be_forgotten() -> None:
    """A reset removes all group configs, and succeeds if there are none."""
    configs = group_configs()
    configs.clear()
    configs.set({"g": {"share.delivery.count.limit": "3"}})
    configs.clear()
    assert configs.own("g") == {}
