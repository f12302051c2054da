"""The console tools and kafka-consumer-groups as processes: groups, signals, closed pipes."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests import forked
from tests.e2e.scripts import RUN, SECONDS, run
from tests.support import ROOT, Broker, wait_for

SETTINGS = {"group.initial.rebalance.delay.ms": "0"}

Process = subprocess.Popen[str]


@contextmanager
def started(*arguments: str) -> Iterator[Process]:
    """Start a script, and kill it at the end of the block if it still runs."""
    pipe = subprocess.PIPE
    with forked.start(
        [*RUN, *arguments], cwd=ROOT, stdin=pipe, stdout=pipe, stderr=pipe, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def read_line(process: Process) -> str:
    """Return the next line that the process prints."""
    assert process.stdout is not None
    return process.stdout.readline()


def write(process: Process, text: str) -> None:
    """Write a text to the process's standard input."""
    assert process.stdin is not None
    process.stdin.write(text)
    process.stdin.flush()


def make_topic(broker: Broker, topic: str, partitions: int = 1) -> None:
    """Create a topic."""
    server = ["--bootstrap-server", broker.bootstrap_servers, "--topic", topic]
    done = run("kafka-topics.sh", "--create", *server, "--partitions", str(partitions))
    assert done.returncode == 0, done.stderr


def produce(broker: Broker, topic: str, text: str, *options: str) -> None:
    """Produce the lines of a text, each with its key before a colon."""
    keys = ["--reader-property", "parse.key=true", "--reader-property", "key.separator=:"]
    line = [*RUN, "kafka-console-producer.sh", "--bootstrap-server", broker.bootstrap_servers]
    line += ["--topic", topic, *keys, *options]
    done = forked.run(line, input=text, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def lag(broker: Broker, group: str) -> list[str]:
    """Return the lag of each partition of a group."""
    done = run(
        "kafka-consumer-groups.sh",
        "--bootstrap-server",
        broker.bootstrap_servers,
        "--describe",
        "--group",
        group,
    )
    return [row.split()[5] for row in done.stdout.splitlines()[2:]]


def members(broker: Broker, group: str) -> list[int]:
    """Return the number of partitions of each member of a group."""
    done = run(
        "kafka-consumer-groups.sh",
        "--bootstrap-server",
        broker.bootstrap_servers,
        "--describe",
        "--group",
        group,
        "--members",
    )
    return sorted(int(row.split()[-1]) for row in done.stdout.splitlines()[2:])


def consume_line(broker: Broker, topic: str, *options: str) -> list[str]:
    """Return the arguments of a console consumer."""
    server = ["--bootstrap-server", broker.bootstrap_servers, "--topic", topic]
    return ["kafka-console-consumer.sh", *server, *options]


def test_two_consumers_share_a_group_and_the_one_that_stays_takes_over() -> None:
    """Two consumers split partitions by range; when one leaves at Ctrl-C, the other reads on."""
    with Broker(SETTINGS) as broker:
        make_topic(broker, "t", 4)
        line = consume_line(
            broker,
            "t",
            "--group",
            "g",
            "--from-beginning",
            "--consumer-property",
            "heartbeat.interval.ms=100",
        )
        with started(*line) as first, started(*line) as second:
            wait_for(lambda: members(broker, "g") == [2, 2], "two members with two partitions")
            produce(broker, "t", "".join(f"{number}:{number}\n" for number in range(40)))
            wait_for(lambda: len(lag(broker, "g")) == 4, "all partitions are known")
            for process in (first, second):
                assert read_line(process).startswith("Option --consumer-property is deprecated")
                assert int(read_line(process)) < 40
            first.send_signal(signal.SIGINT)
            _, err = first.communicate(timeout=60)
            assert first.returncode == 130
            assert re.fullmatch(r"Processed a total of [1-9]\d* messages\n", err)
            wait_for(lambda: members(broker, "g") == [4], "the other has all partitions")
            produce(broker, "t", "".join(f"{number}:{number}\n" for number in range(40)))
            second.send_signal(signal.SIGTERM)
            second.communicate(timeout=60)
            assert second.returncode == 128 + signal.SIGTERM
        wait_for(lambda: members(broker, "g") == [], "both have left")


def test_what_a_stopped_consumer_has_printed_is_committed() -> None:
    """At Ctrl-C a consumer commits all printed records, so that the group continues after them."""
    with Broker(SETTINGS) as broker:
        make_topic(broker, "t")
        produce(broker, "t", "a:1\na:2\na:3\n")
        line = consume_line(broker, "t", "--group", "g", "--from-beginning")
        with started(*line) as consumer:
            assert [read_line(consumer) for _ in range(3)] == ["1\n", "2\n", "3\n"]
            consumer.send_signal(signal.SIGINT)
            _, err = consumer.communicate(timeout=60)
        assert (consumer.returncode, err) == (130, "Processed a total of 3 messages\n")
        assert lag(broker, "g") == ["0"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_a_stopped_share_consumer_has_printed_is_acknowledged(number: signal.Signals) -> None:
    """A stopped share consumer acknowledges all printed records and leaves the group."""
    with Broker({**SETTINGS, "broker.count": "2"}) as broker:
        make_topic(broker, "t", 2)
        server = ["--bootstrap-server", broker.bootstrap_servers]
        share = ["kafka-share-groups.sh", *server, "--group", "g"]
        where = ["--topic", "t", "--to-earliest", "--execute"]
        assert run(*share, "--reset-offsets", *where).returncode == 0
        produce(broker, "t", "a:1\nb:2\nc:3\nd:4\n")
        line = ["kafka-console-share-consumer.sh", *server, "--topic", "t", "--group", "g"]
        with started(*line, "--enable-systest-events") as consumer:
            printed = [read_line(consumer) for _ in range(4)]
            assert sorted(printed) == ["1\n", "2\n", "3\n", "4\n"]
            consumer.send_signal(number)
            out, err = consumer.communicate(timeout=60)
        assert consumer.returncode == 128 + number
        assert (out, err) == ("shutdown_complete\n", "Processed a total of 4 messages\n")
        described = run(*share, "--describe").stdout.splitlines()[2:]
        assert [row.split()[-1] for row in described] == ["0", "0"]
        assert "has no active members" in run(*share, "--describe", "--members").stderr


def test_two_share_consumers_share_records_and_one_takes_over_what_the_other_released() -> None:
    """A released record is delivered again with a higher delivery count."""
    with Broker(SETTINGS) as broker:
        make_topic(broker, "t")
        server = ["--bootstrap-server", broker.bootstrap_servers]
        line = ["kafka-console-share-consumer.sh", *server, "--topic", "t", "--group", "g"]
        line += ["--formatter-property", "print.delivery=true"]
        with started(*line) as first:
            share = ["kafka-share-groups.sh", *server, "--describe", "--group", "g"]
            wait_for(
                lambda: "t:0" in run(*share, "--members").stdout,
                "the first consumer has its partition",
            )
            produce(broker, "t", "a:1\n")
            assert read_line(first) == "Delivery:1\t1\n"
            first.kill()
        limit = ["--max-messages", "1", "--timeout-ms", "60000"]
        produce(broker, "t", "a:2\n")
        done = run(*line, *limit, "--release")
        again = run(*line, *limit)
        value = done.stdout.split("\t")[1]
        deliveries = [int(one.stdout.split("\t")[0].partition(":")[2]) for one in (done, again)]
        assert again.stdout.split("\t")[1] == value
        assert deliveries[1] == deliveries[0] + 1


def test_a_closed_pipe_ends_the_consumer_in_order() -> None:
    """If its output pipe closes, a consumer says so, leaves the group and ends with exit code 0."""
    with Broker(SETTINGS) as broker:
        make_topic(broker, "t")
        produce(broker, "t", "a:1\n")
        with started(*consume_line(broker, "t", "--group", "g", "--from-beginning")) as consumer:
            assert read_line(consumer) == "1\n"
            assert consumer.stdout is not None
            consumer.stdout.close()
            consumer.stdout = None
            produce(broker, "t", "a:2\n")
            _, err = consumer.communicate(timeout=60)
        assert (consumer.returncode, err) == (
            0,
            "Unable to write to standard out, closing consumer.\nProcessed a total of 2 messages\n",
        )
        assert members(broker, "g") == []


def test_a_consumer_finds_a_topic_that_is_made_after_it() -> None:
    """A consumer that subscribes to a missing topic reads it once the topic is created."""
    settings = {**SETTINGS, "auto.create.topics.enable": "false"}
    with (
        Broker(settings) as broker,
        started(*consume_line(broker, "late", "--from-beginning")) as consumer,
    ):
        assert consumer.stderr is not None
        assert "{late=UNKNOWN_TOPIC_OR_PARTITION}" in consumer.stderr.readline()
        make_topic(broker, "late")
        produce(broker, "late", "a:1\n")
        assert read_line(consumer) == "1\n"


def test_a_typed_line_is_sent_while_the_producer_waits_for_the_next() -> None:
    """A line is sent after at most `--timeout`, while standard input stays open."""
    with Broker(SETTINGS) as broker:
        make_topic(broker, "t")
        server = ["--bootstrap-server", broker.bootstrap_servers, "--topic", "t"]
        read = ["--partition", "0", "--offset", "0", "--max-messages"]
        with started("kafka-console-producer.sh", *server, "--timeout", "50") as producer:
            write(producer, "first\n")
            assert run(*consume_line(broker, "t", *read, "1")).stdout == "first\n"
            write(producer, "second\n")
            assert run(*consume_line(broker, "t", *read, "2")).stdout == "first\nsecond\n"
            producer.communicate(timeout=60)
            assert producer.returncode == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_producer_sends_what_it_has_read(number: signal.Signals) -> None:
    """A producer that is stopped by a signal sends all lines that it has read."""
    with Broker(SETTINGS) as broker:
        make_topic(broker, "t")
        server = ["--bootstrap-server", broker.bootstrap_servers, "--topic", "t"]
        with started("kafka-console-producer.sh", *server, "--timeout", "600000") as producer:
            write(producer, "first\n")
            wait_for(lambda: _is_waiting(producer.pid), "the line is read")
            producer.send_signal(number)
            _, err = producer.communicate(timeout=60)
        assert (producer.returncode, err) == (128 + number, "")
        line = consume_line(broker, "t", "--partition", "0", "--offset", "0")
        assert run(*line, "--max-messages", "1").stdout == "first\n"


def _is_waiting(pid: int) -> bool:
    """Return whether a producer has a connection, which it opens after reading a line."""
    return any(
        os.readlink(entry).startswith("socket:")
        for entry in Path(f"/proc/{pid}/fd").iterdir()
        if entry.is_symlink()
    )


def test_the_protocol_of_kip_848_is_refused_in_one_line() -> None:
    """`group.protocol=consumer` is refused with one line that names the alternatives."""
    property_ = ["--command-property", "group.protocol=consumer"]
    done = run("kafka-console-consumer.sh", "--bootstrap-server", "h:1", "--topic", "t", *property_)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "kafka-console-consumer: group.protocol=consumer (KIP-848) is not here yet: use"
        " group.protocol=classic, or kafka-console-consumer.sh of Apache Kafka\n"
    )


@pytest.mark.alone
def test_the_console_tools_do_their_work_within_three_tenths_of_a_second() -> None:
    """The tools start, join a group and end within 0.3 s in the best of five runs."""
    with Broker(SETTINGS) as broker:
        server = ["--bootstrap-server", broker.bootstrap_servers]
        make_topic(broker, "t")
        read = ["--from-beginning", "--max-messages", "1"]
        for line in (
            ["kafka-console-producer.sh", *server, "--topic", "t"],
            consume_line(broker, "t", "--partition", "0", *read),
            consume_line(broker, "t", *read, "--group", "g"),
            ["kafka-consumer-groups.sh", *server, "--describe", "--all-groups"],
        ):
            took = []
            for turn in range(5):
                if "--group" in line:
                    line[-1] = f"g{turn}"
                start = time.monotonic()
                done = subprocess.run(
                    [*RUN, *line],
                    cwd=ROOT,
                    input="x\n",
                    capture_output=True,
                    text=True,
                    timeout=60,
                    check=False,
                )
                took.append(time.monotonic() - start)
                assert done.returncode == 0, done.stderr
            assert min(took) < SECONDS, (line, took)


@pytest.mark.real_time
def test_a_consumer_of_a_group_survives_the_restart_of_its_broker(tmp_path: Path) -> None:
    """Commits fail while the broker is down; the consumer then continues with the next records."""
    with Broker(SETTINGS, data_dir=tmp_path / "data") as broker:
        make_topic(broker, "restart")
        produce(broker, "restart", "k:before\n")
        with started(
            "kafka-console-consumer.sh",
            "--bootstrap-server",
            broker.bootstrap_servers,
            "--topic",
            "restart",
            "--group",
            "steady",
            "--from-beginning",
            "--command-property",
            "auto.commit.interval.ms=50",
        ) as consumer:
            assert read_line(consumer) == "before\n"
            broker.kill()
            time.sleep(1)  # long enough for several commits
            assert consumer.poll() is None
            broker.start()
            produce(broker, "restart", "k:after\n")
            assert read_line(consumer) == "after\n"
