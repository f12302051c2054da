"""`coordinator-server explain` describes the rebalances of real consumers."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import aiokafka
import confluent_kafka
import kafka
import pytest

from tests import forked
from tests.clients.support import Member
from tests.clients.worker import Settings
from tests.e2e.commands import EXPLAIN, explain
from tests.support import ROOT, Broker, wait_for
from tests.unit.rebalances.schema import faults

SETTINGS = {"group.initial.rebalance.delay.ms": "0", "group.min.session.timeout.ms": "1000"}
SESSION_TIMEOUT_MS = 2_500


def records(broker: Broker, group: str = "g") -> list[dict[str, Any]]:
    """Return the records about the group."""
    code, lines, errors = explain(broker, group, "--json")
    assert code in (0, 1), errors
    return [json.loads(line) for line in lines]


@contextmanager
def member(broker: Broker, client_id: str, directory: Path) -> Iterator[Member]:
    """Start a consumer of group `g` in a process; it ends with the test."""
    settings = Settings(
        "kafka-python",
        broker.bootstrap_servers,
        group="g",
        topics=["t"],
        assignor="range",
        session_timeout_ms=SESSION_TIMEOUT_MS,
        client_id=client_id,
    )
    consumer = Member(settings, directory / f"{client_id}.jsonl")
    try:
        yield consumer
    finally:
        consumer.end()


def wait_for_members(broker: Broker, count: int) -> dict[str, Any]:
    """Wait until `count` members own all partitions of the topic, and return the last record.

    A leader that has no metadata of the topic yet assigns nothing at first, and rejoins.
    """

    def settled() -> dict[str, Any] | None:
        found = records(broker)
        last = found[-1] if found else None
        shared = sum((last["partitions"] or {}).values()) if last else 0
        return last if last and last["members_after"] == count and shared else None

    try:
        found = wait_for(settled, f"{count} members with partitions", 40, 0.2)
    except AssertionError as error:
        story = "\n".join(explain(broker, "g")[1])
        raise AssertionError(f"{error}\n{story}\n{broker.log}") from None
    assert found is not None
    return found


def one(lines: list[str], pattern: str) -> int:
    """Return the index of the only line that matches."""
    (found,) = [number for number, line in enumerate(lines) if re.search(pattern, line)]
    return found


@pytest.mark.real_time
def test_the_story_of_a_group(tmp_path: Path) -> None:
    """The explanation names a member that joined, one whose session expired, and one that left."""
    with Broker(SETTINGS) as broker, ExitStack() as stack:
        broker.create_topic("t", 12)
        processes = {}
        for name in ("c-1", "c-2", "c-3"):
            processes[name] = stack.enter_context(member(broker, name, tmp_path))
            wait_for_members(broker, len(processes))
        processes["c-2"].send_signal(signal.SIGSTOP)
        expired = wait_for_members(broker, 2)
        processes["c-3"].send_signal(signal.SIGTERM)
        wait_for_members(broker, 1)

        found = records(broker)
        assert [fault for one in found for fault in faults(one)] == []
        assert [one["generation"] for one in found] == list(range(1, len(found) + 1))
        assert expired["timeout_ms"] == SESSION_TIMEOUT_MS
        assert expired["partitions"] == {"moved": 4, "added": 0, "revoked": 0, "stayed": 8}

        code, lines, errors = explain(broker, "g")
        assert (code, errors) == (0, "")
        when = r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}Z  generation \d+: "
        places = [
            one(lines, when + r"c-1 on /127\.0\.0\.1 joined; 1 member joined in [\d ]+ ms; "),
            one(lines, when + r"c-2 on /127\.0\.0\.1 joined; 1 of 1 member rejoined, 1 joined in "),
            one(
                lines, when + r"c-3 on /127\.0\.0\.1 joined; 2 of 2 members rejoined, 1 joined in "
            ),
            one(
                lines,
                when + r"c-2 on /127\.0\.0\.1 missed its session timeout of 2 500 ms; "
                r"2 of 3 members rejoined in [\d ]+ ms; 4 of 12 partitions moved$",
            ),
            one(
                lines,
                when + r"c-3 on /127\.0\.0\.1 left; 1 of 2 members rejoined in [\d ]+ ms; "
                r"6 of 12 partitions moved$",
            ),
        ]
        assert places == sorted(places)
        story = lines[places[3] + 1 : places[4]]
        assert one(story, r"^    c-1: t 0-3 -> t 0-5$") < one(story, r"^    c-2: t 4-7 -> gone$")

        # The log has the same facts as the command. `--last 1` prints only the last rebalance.
        assert broker.log_lines("group.rebalanced", "trigger='member expired'", "moved=4")
        assert explain(broker, "g", "--last", "1")[1] == lines[places[4] :]


@pytest.mark.real_time
def test_a_story_that_goes_on(tmp_path: Path) -> None:
    """--follow waits for the topic and the group, and prints each rebalance as it happens."""
    output = tmp_path / "story"
    with Broker(SETTINGS) as broker, ExitStack() as stack:
        with output.open("wb") as stdout:
            command = [*EXPLAIN, "g", "--follow", "--bootstrap", broker.bootstrap_servers]
            follower = subprocess.Popen(command, cwd=ROOT, stdout=stdout)
        stack.callback(follower.wait)
        stack.callback(follower.kill)
        broker.create_topic("t", 2)
        process = stack.enter_context(member(broker, "c-1", tmp_path))
        joined = "  generation 1: c-1 on /127.0.0.1 joined; "
        wait_for(lambda: joined in output.read_text(), joined)
        process.send_signal(signal.SIGTERM)
        left = ": c-1 on /127.0.0.1 left; nobody is left"
        wait_for(lambda: left in output.read_text(), left)
        follower.send_signal(signal.SIGINT)
        assert follower.wait(60) == 0


def test_several_brokers(tmp_path: Path) -> None:
    """`explain` works with any broker of a cluster, not only with the leader of the topic."""
    settings = {**SETTINGS, "broker.count": "3"}
    with Broker(settings) as broker, ExitStack() as stack:
        broker.create_topic("t", 3)
        stack.enter_context(member(broker, "c-1", tmp_path))
        wait_for_members(broker, 1)


def test_a_group_without_a_story(tmp_path: Path) -> None:
    """For a group without records, `explain` ends with exit code 1 and one line."""
    with Broker(SETTINGS) as broker, ExitStack() as stack:
        where = broker.bootstrap_servers
        line = f"coordinator-server: no rebalance of 'nobody' is on record at {where}\n"
        assert explain(broker, "nobody") == (1, [], line)
        broker.create_topic("t", 1)
        stack.enter_context(member(broker, "c-1", tmp_path))
        wait_for_members(broker, 1)
        assert explain(broker, "nobody") == (1, [], line)


def test_a_broker_that_wants_a_password(tmp_path: Path) -> None:
    """`explain` connects with the client settings of `--command-config` and `--set`."""
    with Broker(SETTINGS, security="sasl_ssl") as broker:
        config = {**broker.client_config("confluent"), "group.id": "g"}
        broker.create_topic("t", 1)
        consumer = confluent_kafka.Consumer(config)
        consumer.subscribe(["t"])
        wait_for(lambda: consumer.poll(0.1) or consumer.assignment(), "the consumer has joined")
        consumer.close()
        properties = tmp_path / "client.properties"
        lines = (f"{name}={value}\n" for name, value in broker.client_config("java").items())
        properties.write_text("".join(lines))
        code, told, errors = explain(broker, "g", "--command-config", str(properties))
        assert (code, errors) == (0, "")
        assert told
        code, told, errors = explain(broker, "g", "--command-config", str(tmp_path / "none"))
        assert (code, told) == (2, [])
        assert f"--command-config {tmp_path / 'none'}: No such file or directory" in errors


def test_the_topic_is_switched_off() -> None:
    """With group.events.enable=false, `explain` ends with exit code 2 and one line."""
    with Broker({"group.events.enable": "false"}) as broker:
        expected = (
            f"coordinator-server: {broker.bootstrap_servers} writes no __group_events: "
            "group.events.enable is false\n"
        )
        assert explain(broker, "g") == (2, [], expected)


def test_nobody_is_there() -> None:
    """Without a broker, `explain` ends with exit code 2 and one line."""
    with Broker() as broker:
        bootstrap = broker.bootstrap_servers
    code, lines, errors = explain(bootstrap, "g")
    assert (code, lines) == (2, [])
    assert errors == f"coordinator-server: no broker at {bootstrap}: Connection refused\n"


@pytest.mark.parametrize(
    "arguments", [(), ("g", "--last", "0"), ("g", "--last", "x"), ("g", "--bootstrap", "here")]
)
def test_wrong_arguments(arguments: tuple[str, ...]) -> None:
    """With wrong arguments, `explain` ends with exit code 2 and prints the usage."""
    done = forked.run([*EXPLAIN, *arguments], timeout=60)
    assert done.returncode == 2
    assert done.stderr.startswith("usage: coordinator-server explain")


@pytest.mark.real_time
def test_a_pattern_does_not_find_the_topic(tmp_path: Path) -> None:
    """Consumers that subscribe to `.*` do not get `__group_events`."""
    with Broker(SETTINGS) as broker, ExitStack() as stack:
        broker.create_topic("t", 1)
        stack.enter_context(member(broker, "c-1", tmp_path))
        wait_for_members(broker, 1)

        consumer = kafka.KafkaConsumer(bootstrap_servers=broker.bootstrap_servers, group_id="all")
        consumer.subscribe(pattern=".*")
        wait_for(lambda: consumer.poll(500) or consumer.assignment(), "an assignment")
        assert {partition.topic for partition in consumer.assignment()} == {"t"}
        consumer.close()
        assert asyncio.run(_subscribed_by_pattern(broker.bootstrap_servers)) == {"t"}


async def _subscribed_by_pattern(bootstrap: str) -> set[str]:
    """Return the topics that aiokafka consumes with the pattern `.*`."""
    consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=bootstrap, group_id="all too")
    consumer.subscribe(pattern=".*")
    await consumer.start()
    try:
        end = time.monotonic() + 20
        while not consumer.assignment():
            assert time.monotonic() < end, "no assignment"
            await consumer.getmany(timeout_ms=50)
        return {partition.topic for partition in consumer.assignment()}
    finally:
        await consumer.stop()
