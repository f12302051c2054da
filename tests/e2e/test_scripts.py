"""Kafka's scripts as processes: as run in the image, and as commands of `coordinator-server`."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from pathlib import Path

import kafka
import pytest

from coordinator_server.kafka_tools.script_names import BY_NAME, SCRIPTS
from tests.e2e.scripts import RUN, SECONDS, run
from tests.support import ROOT, Broker, Serve, free_port


def test_an_init_service_makes_its_topic_and_may_run_again() -> None:
    """The most common command of an init container creates a topic, and may be repeated."""
    with Broker() as broker:
        line = ["--create", "--if-not-exists", "--topic", "orders", "--partitions", "3"]
        line += ["--replication-factor", "1", "--bootstrap-server", broker.bootstrap_servers]
        first, second = (run("kafka-topics.sh", *line) for _ in range(2))
        assert (first.returncode, first.stdout, first.stderr) == (0, "Created topic orders.\n", "")
        assert (second.returncode, second.stdout, second.stderr) == (0, "", "")


def test_the_image_learns_the_names_of_all_scripts() -> None:
    """`--names` lists the scripts for the Dockerfile; each runs with `.sh` and without."""
    done = run("--names")
    assert (done.returncode, done.stdout.split()) == (0, list(BY_NAME))
    for name in ("kafka-storage", "/opt/kafka/bin/kafka-storage.sh"):
        assert re.fullmatch("[A-Za-z0-9_][A-Za-z0-9_-]{21}\n", run(name, "random-uuid").stdout)


def test_help_of_the_storage_tool_is_no_mistake() -> None:
    """The storage tool prints help to standard output with exit code 0, unlike other tools."""
    done = run("kafka-storage.sh", "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("usage: kafka-storage {")
    done = run("kafka-topics.sh", "--help")
    assert (done.returncode, done.stdout) == (1, "")


def test_a_script_that_is_not_there_is_named() -> None:
    """An unknown script name ends with one line and exit code 2."""
    done = run("kafka-nothing.sh", "--list")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("kafka-nothing: not one of kafka-acls, ")


def test_the_command_line_has_every_script() -> None:
    """`coordinator-server COMMAND` runs the same tool as Kafka's script; `--help` lists it."""
    ours = (sys.executable, "-m", "coordinator_server")
    shown = run("--help", command=ours).stdout
    for script in SCRIPTS:
        assert script.command in shown
        done, expected = run(script.command, command=ours), run(script.name)
        assert done.returncode == expected.returncode
        assert done.stdout == expected.stdout
        errors = [re.sub(r"^\[[^\]]*\] ", "", one.stderr) for one in (done, expected)]
        assert errors[0] == errors[1]
        assert done.stdout or done.stderr


@pytest.mark.alone
def test_a_script_does_its_work_within_three_tenths_of_a_second() -> None:
    """A script, including the start of Python, takes at most 0.3 s in the best of five runs."""
    with Broker() as broker:
        server = ["--bootstrap-server", broker.bootstrap_servers]
        run("kafka-topics.sh", *server, "--create", "--topic", "t")
        for line in (
            ["kafka-topics.sh", *server, "--describe"],
            ["kafka-configs.sh", *server, "--describe", "--topic", "t", "--all"],
            ["kafka-get-offsets.sh", *server],
            ["kafka-broker-api-versions.sh", *server],
        ):
            took = []
            for _ in range(5):
                start = time.monotonic()
                assert run(*line).returncode == 0
                took.append(time.monotonic() - start)
            assert min(took) < SECONDS, line


def test_a_script_waits_for_a_broker_that_is_still_starting() -> None:
    """A script warns and retries until the broker is up, so that no health check is needed."""
    port = free_port()
    line = [*RUN, "kafka-topics.sh", "--list", "--bootstrap-server", f"127.0.0.1:{port}"]
    with subprocess.Popen(
        line, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as waiting:
        assert waiting.stderr is not None
        warning = waiting.stderr.readline()
        with Serve("--ephemeral", listener=f"127.0.0.1:{port}"):
            out, _ = waiting.communicate(timeout=60)
    assert (waiting.returncode, out) == (0, "\n")
    assert re.fullmatch(
        rf"\[[-0-9]+ [:0-9]+,[0-9]+\] WARN \[AdminClient clientId=adminclient-1\] Connection to"
        rf" node -1 \(/127\.0\.0\.1:{port}\) could not be established\. Node may not be available\."
        r" \(org\.apache\.kafka\.clients\.NetworkClient\)\n",
        warning,
    )


def test_no_broker_at_all_ends_after_the_timeout_of_the_client(tmp_path: Path) -> None:
    """A script without a broker ends with exit code 1 after `default.api.timeout.ms`."""
    config = tmp_path / "client.properties"
    config.write_text("default.api.timeout.ms=500\nsasl.mechanism=PLAIN\n")
    server = ["--bootstrap-server", f"127.0.0.1:{free_port()}", "--command-config", str(config)]
    topics = run("kafka-topics.sh", "--list", *server)
    assert topics.returncode == 1
    message = "Timed out waiting for a node assignment. Call: listTopics"
    assert topics.stdout == f"Error while executing topic command : {message}\n"
    assert f"ERROR org.apache.kafka.common.errors.TimeoutException: {message}\n" in topics.stderr
    assert run("kafka-configs.sh", "--describe", "--topic", "t", *server).returncode == 1
    assert run("kafka-get-offsets.sh", *server).returncode == 1
    versions = run("kafka-broker-api-versions.sh", *server)
    assert versions.returncode == 1
    assert "Request METADATA failed on brokers [127.0.0.1:" in versions.stderr


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "kafka-topics.sh --list --command-config {config}",
            "kafka-topics: sasl.mechanism=GSSAPI is not supported, only PLAIN, SCRAM-SHA-256,"
            " SCRAM-SHA-512, OAUTHBEARER: use the scripts of Apache Kafka for this broker\n",
        ),
        (
            "kafka-configs.sh --describe --topic t --bootstrap-controller localhost:9093",
            "kafka-configs: --bootstrap-controller: use --bootstrap-server, of any broker\n",
        ),
        (
            "kafka-storage.sh version-mapping",
            "kafka-storage: version-mapping: use the script of Apache Kafka, it asks no broker\n",
        ),
        (
            "kafka-storage.sh format -t x -c y -S z",
            "kafka-storage: --S: see --add-scram\n",
        ),
    ],
)
def test_what_is_not_here_says_what_to_use(tmp_path: Path, line: str, message: str) -> None:
    """An unsupported option ends with one line on standard error and exit code 1."""
    config = tmp_path / "client.properties"
    config.write_text("security.protocol=SASL_SSL\n")
    script, *arguments = line.format(config=config).split()
    if script == "kafka-topics.sh":
        arguments += ["--bootstrap-server", "127.0.0.1:1"]
    done = run(script, *arguments)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", message)


def test_storage_says_that_nothing_is_formatted() -> None:
    """`kafka-storage format` succeeds without formatting, so that start scripts continue."""
    done = run("kafka-storage.sh", "format", "-t", "x", "-c", "server.properties", "--standalone")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Nothing to format")
    refused = run("kafka-storage.sh", "format", "-t", "x")
    assert refused.returncode == 1
    assert refused.stderr.startswith("kafka-storage: error: argument --config/-c is required\n")


def test_the_tools_find_the_leaders_of_a_cluster(tmp_path: Path) -> None:
    """Offsets, deletions and versions are requested from the leaders of a cluster."""
    with Broker({"broker.count": "3", "num.partitions": "6"}) as broker:
        producer = kafka.KafkaProducer(bootstrap_servers=broker.bootstrap_servers)
        for partition in range(6):
            for _ in range(partition + 1):
                producer.send("t", b"x", partition=partition).get(30)
        producer.close()
        dead_first = f"127.0.0.1:{free_port()},{broker.bootstrap_servers}"
        server = ["--bootstrap-server", dead_first]
        described = run("kafka-topics.sh", *server, "--describe", "--topic", "t").stdout
        assert set(re.findall(r"Leader: (\d)", described)) == {"1", "2", "3"}
        offsets = run("kafka-get-offsets.sh", *server, "--topic", "t").stdout
        assert offsets == "".join(f"t:{index}:{index + 1}\n" for index in range(6))
        keep = [{"topic": "t", "partition": index, "offset": -1} for index in range(6)]
        (tmp_path / "keep.json").write_text(json.dumps({"partitions": keep}))
        file = ["--offset-json-file", str(tmp_path / "keep.json")]
        deleted = run("kafka-delete-records.sh", *server, *file).stdout.splitlines()
        assert deleted[2:] == [
            f"partition: t-{index}\tlow_watermark: {index + 1}" for index in range(6)
        ]
        versions = run("kafka-broker-api-versions.sh", *server).stdout
        assert re.findall(r"\(id: (\d) rack", versions) == ["1", "2", "3"]
        assert "\tProduce(0): 0 to 13 [usable: 13],\n" in versions
