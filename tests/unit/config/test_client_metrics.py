"""Client metrics subscriptions: persistence, and patterns with the syntax of Java and RE2."""

from __future__ import annotations

import pytest

from coordinator_server.config.client_metrics import ClientMetricsConfigs, check
from coordinator_server.config.config import Config
from coordinator_server.topics.topic_configs import log_defaults
from storage.errors import TopicConfigError
from storage.log_manager import LogManager
from storage.memory_disk import MemoryDisk
from storage.topic_catalogue import TopicCatalogue

DATA = "/data"
CONFIGS = {"metrics": "a,b", "interval.ms": "100", "match": "client_id=x.*"}


def opened(disk: MemoryDisk) -> ClientMetricsConfigs:
    """Return the subscriptions of a data directory."""
    return ClientMetricsConfigs(LogManager.open(disk, DATA, log_defaults(Config())).catalogue)


def test_subscriptions_are_kept_when_they_are_set() -> None:
    """A set or deleted subscription survives a kill of the broker."""
    disk = MemoryDisk()
    configs = opened(disk)
    configs.set({"s": CONFIGS, "gone": CONFIGS})
    configs.set({"gone": {}})
    disk.processes_died()
    kept = opened(disk)
    assert (kept.names(), kept.own("s"), kept.own("gone")) == (["s"], CONFIGS, {})
    one = kept.subscriptions()[0]
    assert (one.metrics, one.interval_ms, list(one.patterns)) == (("a", "b"), 100, ["client_id"])


def test_compaction_of_the_catalogue_keeps_subscriptions() -> None:
    """Compaction of the catalogue keeps one line per subscription, even after many changes."""
    disk = MemoryDisk()
    disk.mkdir(DATA)
    catalogue = TopicCatalogue(disk, DATA)
    for number in range(1200):
        catalogue.put_client_metrics({"s": {"interval.ms": str(1000 + number)}})
    dead = catalogue.is_mostly_dead
    for _ in catalogue.compaction_steps():
        pass
    assert (dead, catalogue.is_mostly_dead) == (True, False)
    assert TopicCatalogue(disk, DATA).client_metrics == {"s": {"interval.ms": "2199"}}


def test_many_subscriptions_are_parsed_in_steps() -> None:
    """Subscriptions are parsed in steps, each of them once until it changes."""
    configs = opened(MemoryDisk())
    configs.set({f"s{number}": {"metrics": f"m{number}"} for number in range(20)})
    assert len(list(configs.prepare())) == 20
    assert len(configs.subscriptions()) == 20
    configs.set({"s1": {"metrics": "other"}, "s2": {}})
    assert len(list(configs.prepare())) == 1
    assert list(configs.prepare()) == []
    metrics = {one.metrics for one in configs.subscriptions()}
    assert (len(metrics), ("other",) in metrics, ("m2",) in metrics) == (19, True, False)


@pytest.mark.parametrize(
    "expression", ["a{2", "{", "a{x}", "(?=a)", "(a)\\1", "a++", "[", "\ud800"]
)
def test_expressions_that_java_or_re2_does_not_know_are_refused(expression: str) -> None:
    """A pattern that Java or RE2 does not accept is refused.

    RE2 has neither lookaround nor backreferences, and takes a lone brace as text.
    """
    text = f"Illegal client matching pattern: client_id={expression}"
    with pytest.raises(TopicConfigError) as refusal:
        check("s", {"match": f"client_id={expression}"})
    assert refusal.value.message == text


@pytest.mark.parametrize("expression", ["a{2}", "a{2}b{13}", "\\{", "[{]", "\\p{L}+", "[]{]"])
def test_braces_that_java_takes_are_taken(expression: str) -> None:
    """Braces that Java accepts are accepted: as repetitions, classes and escapes."""
    check("s", {"match": f"client_id={expression}"})
