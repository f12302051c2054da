"""Play the cases with Kafka's tools or ours, and return their output in a comparable form.

Values that differ between runs are replaced: ids, times, ports, Java's stack traces. Our usage
texts are not Kafka's, so only the line above a usage text and its presence are compared.
"""

from __future__ import annotations

import io
import json
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, Self

import kafka

from coordinator_server.client import Client, ClientError, read_settings
from coordinator_server.kafka_tools.groups_read import alter_offsets
from coordinator_server.kafka_tools.reassignments import alter_reassignments
from coordinator_server.kafka_tools.script_names import BY_NAME, run_script
from coordinator_server.testing import Control
from protocol.apis.describe_log_dirs import DescribeLogDirsRequest
from tests.oracle.kafka_process import java
from tests.scripts.members import MEMBERS, Member
from tests.scripts.transactional import Transactions
from tests.support import AUTHORIZED, wait_for

TOOL_SERVER = Path(__file__).with_name("ToolServer.java")
CLASSES = {
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-share-groups": "org.apache.kafka.tools.consumer.group.ShareGroupCommand",
    "kafka-streams-groups": "org.apache.kafka.tools.streams.StreamsGroupCommand",
    "kafka-groups": "org.apache.kafka.tools.GroupsCommand",
    "kafka-console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-console-share-consumer": "org.apache.kafka.tools.consumer.ConsoleShareConsumer",
    "kafka-consumer-perf-test": "org.apache.kafka.tools.ConsumerPerformance",
    "kafka-producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
    "kafka-verifiable-consumer": "org.apache.kafka.tools.VerifiableConsumer",
    "kafka-verifiable-producer": "org.apache.kafka.tools.VerifiableProducer",
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-configs": "org.apache.kafka.tools.ConfigCommand",
    "kafka-client-metrics": "org.apache.kafka.tools.ClientMetricsCommand",
    "kafka-acls": "org.apache.kafka.tools.AclCommand",
    "kafka-delegation-tokens": "org.apache.kafka.tools.DelegationTokenCommand",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "kafka-leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "kafka-log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-replica-verification": "org.apache.kafka.tools.ReplicaVerificationTool",
    "kafka-features": "org.apache.kafka.tools.FeatureCommand",
    "kafka-cluster": "org.apache.kafka.tools.ClusterTool",
    "kafka-metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "kafka-transactions": "org.apache.kafka.tools.TransactionsCommand",
    "kafka-broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "kafka-storage": "kafka.tools.StorageTool",
}
_ALONE = (
    "kafka-cluster",
    "kafka-producer-perf-test",
    "kafka-verifiable-consumer",
    "kafka-verifiable-producer",
)
"""Tools that end their JVM, so each call runs in a new one."""
_ENDS = {"until": signal.SIGTERM, "interrupt": signal.SIGINT}
SETTINGS = {"auto.create.topics.enable": "false", "group.initial.rebalance.delay.ms": "0"}
"""Settings of the broker, ours and Kafka."""

_FRAMES = re.compile(r"\n(\t+at .*|\t+\.\.\. \d+ more|Caused by: (joptsimple|java\.lang)\..*)")


_READS = {
    *("--describe", "--list", "--dry-run", "kafka-get-offsets"),
    *("describe", "describe-producers", "list", "find-hanging"),
}


class Area(NamedTuple):
    """A file of cases, the recorded output of Kafka's tools, and the broker's settings.

    `users` maps PLAIN users to their passwords if clients must authenticate.
    """

    cases: str
    recorded: str
    settings: Mapping[str, str] = SETTINGS
    users: Mapping[str, str] = MappingProxyType({})

    def read_recorded(self) -> Any:
        """Return the recorded outcomes."""
        return json.loads((HERE / self.recorded).read_text())


_LOGIN = "org.apache.kafka.common.security"
_TOKEN_USERS = {f"{side}-{name}": f"{side}{name}" for side in "ku" for name in ("al", "bo", "ca")}
_TOKEN_SETTINGS = {
    "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "inter.broker.listener.name": "PLAINTEXT",
    "listener.name.plaintext.plain.sasl.jaas.config": (
        f'{_LOGIN}.plain.PlainLoginModule required username="k-al" password="kal"'
        + "".join(f' user_{name}="{one}"' for name, one in _TOKEN_USERS.items())
        + ";"
    ),
    "listener.name.plaintext.scram-sha-512.sasl.jaas.config": (
        f"{_LOGIN}.scram.ScramLoginModule required;"
    ),
    "delegation.token.secret.key": "a key",
}
"""A single listener with the users of both sides."""

SHARE_SETTINGS = {
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    # The records have old timestamps, which Kafka's retention would delete after half a minute.
    "log.retention.ms": "-1",
}
"""A single Kafka cannot create the share-group state topic without the first two settings."""
STREAMS_SETTINGS = {
    "group.streams.initial.rebalance.delay.ms": "0",
    "log.retention.ms": "-1",
}

HERE = Path(__file__).parent
AREAS = (
    Area("cases.txt", "recorded.json"),
    Area("groups.txt", "groups.json"),
    Area("all_groups.txt", "all_groups.json"),
    Area("share_groups.txt", "share_groups.json", {**SETTINGS, **SHARE_SETTINGS}),
    Area("share_console.txt", "share_console.json", {**SETTINGS, **SHARE_SETTINGS}),
    Area("streams_groups.txt", "streams_groups.json", {**SETTINGS, **STREAMS_SETTINGS}),
    Area("console.txt", "console.json"),
    # With verification the broker would refuse these records, because no coordinator knows their
    # transaction.
    Area(
        "transactions.txt",
        "transactions.json",
        {**SETTINGS, "transaction.partition.verification.enable": "false"},
    ),
    Area("leaders.txt", "leaders.json"),
    Area("reassignments.txt", "reassignments.json"),
    Area(
        "three_brokers.txt",
        "three_brokers.json",
        {**SETTINGS, "broker.count": "3", "broker.rack": "r"},
    ),
    Area("replicas.txt", "replicas.json", {**SETTINGS, "broker.count": "3"}),
    Area("client_metrics.txt", "client_metrics.json"),
    Area("acls.txt", "acls.json", {**SETTINGS, **AUTHORIZED}),
    Area(
        "delegation_tokens.txt",
        "delegation_tokens.json",
        {**SETTINGS, **AUTHORIZED, **_TOKEN_SETTINGS},
        _TOKEN_USERS,
    ),
)


# Our tools do not print this advertisement, because they do not support group.protocol=consumer
# yet.
_ADVERTISEMENT = re.compile(r"(?m)^The consumer rebalance protocol \(KIP-848\) .*\n")
_USAGE = re.compile(r"(?s)(?P<before>\A|\n)Option +(?:\(\* = required\) *)?Description.*")
# Kafka's tools list these options in the order of a set, which differs between JVMs.
_LISTED = re.compile(r"(?<=options: )\[[\w-]+\](?:, \[[\w-]+\])+")
# Tools with commands print a usage text, and Kafka's tools wrap its error messages at column 75.
_USAGE_OF_COMMANDS = re.compile(
    r"(?s)\Ausage: .*?(?=\n(?:kafka|verifiable)-[\w.-]*:\s+error:|\n\Z)"
)
_JUSTIFIED = re.compile(
    r"(?s)(?<=<usage>\n)(?:kafka|verifiable)-[\w.-]*:\s+error:.*?(?=\n\nDid|\n\Z)"
)
_GUESS = re.compile(r"(?s)\n+Did you mean:\n.*(?=\n\Z)")
_BROKEN_NAME = re.compile(r"(?<=--) |(?<=--key-) ")
# Producer ids, timestamps and ages differ between runs; kafka-transactions prints them in tables.
_PRODUCER_ID = re.compile(r"(?m)(?<![^\t\n])(?=[\d ]{10}\t)\d+ *(?=\t)")
_TIME = re.compile(r"\b\d{13}( *\t)")
_AGE = re.compile(r"(?<=\tTIME)( *\t)(?=[\d ]{13}\t|[\d ]{21}\t)\d+ *")
# kafka-acls prints ACLs in an order that differs between runs.
_FIRST_ACL = re.compile(r"(?m)^ (?=\t\(principal=)")
# If an Admin call finds no leader, its timeout error has one of two texts at random.
_CALL = re.compile(r"Call\(callName=(\S+), deadlineMs=.* timed out at \d+ after \d+ attempt\(s\)")
# Token ids and HMACs differ between runs; kafka-delegation-tokens prints them in tables and in
# other lines.
_TOKEN = re.compile(r"(?m)^(?P<id>[\w-]{22}) (?P<hmac>[\w+/]{86}==) ")
_TOKEN_ID = re.compile(r"(?<=with tokenId : )\S+")
_DATE = re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d(?![:\d])")
_CLUSTER_ID = re.compile(r"(?<=ClusterId: {14})\S+|(?<=Cluster ID: )\S+")
_LOG_DIR = re.compile(r'(?<="logDir":")[^"]*')
# Kafka's tools print partitions in the order of Java's hash codes, in lists and in log directories.
_ELECTED = re.compile(r"(?<=for partitions )[^,\s]+(?:, [^,\s]+)*")
_TOPICS = re.compile(r"(?<=throttles on topics )\S+|(?<=duplicate topic partitions: )\S+")
_MISSING = re.compile(r"(?<=Unable to find partition: ).*")
_MOVED = re.compile(r"(?<=Failed to alter dir for )\S+")
_FURTHEST = re.compile(r"(?<=for partition )\S+ at offset \d+(?= among \d\d? partitions)")
_IN_LOG_DIR = re.compile(r'(?<="partitions":\[)[^\]]+')
_OBJECT = re.compile(r"\{[^}]*\}")
# The rates of kafka-consumer-perf-test differ between runs; only the amount of data must be equal.
_RATE = r", (?:[\d.]+|NaN)"
_MEASURED = re.compile(
    rf"(?m)^\d[\d :,-]*, (?P<bytes>[\d.]+){_RATE}, (?P<count>\d+)"
    rf"{_RATE}(?:, -?\d+){{2}}(?:{_RATE}){{2}}$"
)
# The last lines of kafka-producer-perf-test have latencies, which differ between runs.
_WRITTEN = re.compile(r"(?m)(?<=records sent, ).* latency(?:, \d+ ms \d+(?:\.\d+)?th){4}\.$")
# kafka-verifiable-producer and -consumer print events whose fields have no fixed order.
_EVENT = re.compile(r'(?m)^\{"timestamp":.*\}$')
_GENERATED = re.compile(r"(?<=client metrics config for )[\w-]{22}(?=\.)")
# In a proposal of kafka-reassign-partitions, the leader is chosen at random.
_PROPOSED = re.compile(r"(?<=Proposed partition reassignment configuration\n).*")
_REPLICAS = re.compile(r'(?<="replicas":\[)[\d,]+')
_STAMP = re.compile(r"(?m)^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}:")
_UUID = re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")


class Outcome(NamedTuple):
    """The exit code, output and errors of one call."""

    code: int
    out: str
    err: str


class Case(NamedTuple):
    """One line of the cases."""

    line: str
    is_ordered: bool
    has_server: bool
    is_alone: bool
    """True if the case shows or changes state that the two sides share on one broker."""
    arguments: list[str]
    input: str

    @property
    def only_reads(self) -> bool:
        """Return whether the case only reads, so that a second call would print the same."""
        return any(word in self.arguments for word in _READS)


Tool = Callable[[str, Sequence[str], str], Outcome]


def cases(area: Area) -> list[Case]:
    """Return the cases of an area in order."""
    lines = (HERE / area.cases).read_text().splitlines()
    return [read_case(line) for line in lines if not line.startswith("#")]


def read_case(line: str) -> Case:
    """Parse a case."""
    call, _, text = line.partition(" <<< ")
    words = shlex.split(call)
    marks = [word for word in words[:1] if word in "*=!"]
    typed = text.encode("latin-1").decode("unicode_escape")
    return Case(line, "*" not in marks, "=" not in marks, "!" in marks, words[len(marks) :], typed)


class Player:
    """Play cases on a broker with Kafka's tools or ours; resource names begin with `prefix`.

    Groups and ACLs whose names begin with `hidden`, from the other tools, are left out.
    `control` stops and starts the brokers of a process with several brokers.
    """

    def __init__(
        self,
        tool: Tool,
        bootstrap: str,
        prefix: str,
        directory: Path,
        hidden: str = "",
        users: Mapping[str, str] = MappingProxyType({}),
        control: Control | None = None,
    ) -> None:
        self._tool = tool
        self._control = control
        self._bootstrap = bootstrap.split(",")[0]
        self._prefix = prefix
        self._directory = directory
        self._hidden = hidden
        self._members: list[kafka.KafkaConsumer | Member] = []
        self._token = ("", "")
        directory.mkdir()
        for name, password in users.items():
            self._write_user(name.removeprefix(prefix), name, password)
        own = next((properties_of(*one) for one in users.items()), {})
        client = Client(self._bootstrap, read_settings(own))
        host, port = self._bootstrap.split(":")
        self._address = host, int(port)
        self._node = str(client.metadata([]).brokers[0].node_id)
        directories = client.ask(DescribeLogDirsRequest(topics=None)).results
        self._logs = directories[0].log_dir if directories else "{logs}"
        client.close()
        self._make_files()

    def play(self, case: Case) -> Outcome | None:
        """Return the outcome of one case, or None for a case that runs no script."""
        words = [
            word.replace("@", self._prefix)
            .replace("{dir}", str(self._directory))
            .replace("{logs}", self._logs)
            .replace("NODE", self._node)
            .replace("SERVER", self._bootstrap)
            .replace("{hmac}", self._token[1])
            for word in case.arguments
        ]
        if words[0] == "file":
            (self._directory / words[1]).write_text(words[2])
            return None
        if words[0] in ("stop", "start"):
            assert self._control is not None
            self._control.call("POST", f"/brokers/{words[1]}/{words[0]}")
            return None
        if words[0] == "reassign":
            self._reassign(words[1], int(words[2]), [int(one) for one in words[3].split(",")])
            return None
        if words[0] == "produce":
            self._produce(words[1], int(words[2]), int(words[3]))
            return None
        if words[0] == "member":
            self._join(words[1], words[2], *words[3:])
            return None
        if words[0] == "transact":
            self._transact(words[1], words[2], int(words[3]), words[4])
            return None
        if words[0] == "hang":
            self._hang(words[1], int(words[2]), int(words[3]), int(words[4]))
            return None
        if words[0] in ("login", "logout"):
            self._wait_for_token(is_known=words[0] == "login")
            return None
        if words[0] == "leave":
            while self._members:
                self._members.pop().close()
            return None
        if words[0] == "commit":
            client = Client(self._bootstrap)
            alter_offsets(client, words[1], {(words[2], int(words[3])): int(words[4])})
            client.close()
            return None
        if words[0] in MEMBERS:
            self._members.append(MEMBERS[words[0]](self._bootstrap, *words[1:]))
            return None
        server = ["--bootstrap-server", self._bootstrap] if case.has_server else []
        if words[0] in _ENDS:
            command = _command(self._tool, words[2], words[3:])
            outcome = _run_until(words[1], command, _ENDS[words[0]])
        else:
            outcome = self._tool(words[0], [*server, *words[1:]], case.input)
        token = _TOKEN.search(outcome.out)
        if token is not None:
            self._token = token["id"], token["hmac"]
        out, err = (self._comparable(text) for text in outcome[1:])
        if not case.is_ordered:
            out = "\n".join(sorted(out.split("\n")))
        return Outcome(outcome.code, out, err)

    def _comparable(self, text: str) -> str:
        text = without_frames(text)
        text = _USAGE.sub(r"\g<before><usage>", text)
        text = _LISTED.sub(lambda listed: ", ".join(sorted(listed[0].split(", "))), text)
        text = re.sub(r"^\[[^\]]*\] (ERROR|WARN) \S+ - ", r"[time] \1 ", text, flags=re.M)
        text = re.sub(r"^\[[^\]]*\] (ERROR|WARN) ", r"[time] \1 ", text, flags=re.M)
        text = re.sub(r"(?m)\n? \(org\.apache\.kafka[\w.]*\)$", "", text)
        text = re.sub(r"TopicId: \S+", "TopicId: ID", text)
        text = re.sub(r"clientId=adminclient-\d+", "clientId=adminclient-1", text)
        text = _ADVERTISEMENT.sub("", text)
        text = re.sub(r"(?<=CreateTime:)\d+|(?<=LogAppendTime:)\d+", "TIME", text)
        text = re.sub(r"(?<=console-consumer-)\d+|(?<=perf-consumer-)\d+", "N", text)
        text = _WRITTEN.sub("TIMES", text)
        text = _EVENT.sub(_comparable_event, text)
        text = _MEASURED.sub(r"TIME, \g<bytes>, \g<count>", text)
        text = re.sub(r"(?<=correlation id )\d+", "N", text)
        text = _without_repeats(text, " recoverable issue ")
        text = _without_repeats(_STAMP.sub("TIME:", text), ": max lag is ")
        text = _USAGE_OF_COMMANDS.sub("<usage>", text)
        # A wrapped line may end within an option's name, after its hyphens.
        text = _JUSTIFIED.sub(
            lambda message: _BROKEN_NAME.sub("", " ".join(message[0].split())), text
        )
        text = _GUESS.sub("", text)
        text = _PRODUCER_ID.sub("PRODUCERID", text)
        text = _AGE.sub(r"\1AGE", _TIME.sub(r"TIME\1", text))
        text = _CALL.sub(r"Timed out waiting for a node assignment. Call: \1", text)
        text = _FIRST_ACL.sub("", text)
        text = _TOKEN_ID.sub("TOKEN", _TOKEN.sub("TOKEN HMAC ", text))
        if self._token[1]:
            text = text.replace(self._token[1], "{hmac}")
        text = _GENERATED.sub("UUID", text)
        text = _DATE.sub("DATE", text)
        text = _CLUSTER_ID.sub("ID", text)
        text = _PROPOSED.sub(
            lambda proposed: _REPLICAS.sub(
                lambda listed: ",".join(sorted(listed[0].split(","))), proposed[0]
            ),
            text,
        )
        text = _LOG_DIR.sub("{logs}", text)
        text = _UUID.sub("00000000-0000-0000-0000-000000000000", text)
        if self._hidden:
            block = rf"(?m)^Client metrics configs for {self._hidden}\S* are:\n(?:  .*\n)*"
            text = re.sub(block, "", text)
            hidden = rf"(?m)^(.*(name=|User:))?{self._hidden}.*\n?"
            # Also remove the blank line after the block, if the block was the first.
            text = re.sub(hidden, "", text).lstrip("\n")
        for found, put in (
            (str(self._directory), "{dir}"),
            (self._logs, "{logs}"),
            (self._bootstrap, "{broker}"),
            (self._bootstrap.rpartition(":")[2], "{port}"),
            (self._prefix, "@"),
        ):
            text = text.replace(found, put)
        text = re.sub(rf"(?<=id: ){self._node}\b", "NODE", text)
        if self._hidden:
            # Topic names differ between the two brokers, and so does the order of their hash codes.
            text = _TOPICS.sub(lambda listed: ",".join(sorted(listed[0].split(","))), text)
            text = _MISSING.sub(lambda listed: ", ".join(sorted(listed[0].split(", "))), text)
            text = _MOVED.sub("{replica}", text)
            text = _FURTHEST.sub("{partition}", text)
            text = _ELECTED.sub(lambda listed: ", ".join(sorted(listed[0].split(", "))), text)
            text = _IN_LOG_DIR.sub(
                lambda listed: ",".join(sorted(_OBJECT.findall(listed[0]))), text
            )
        return re.sub(r"\n+", "\n", text)

    def _wait_for_token(self, *, is_known: bool) -> None:
        """Wait until a client with the last token can log in, or no longer can."""
        self._write_user("token", *self._token, mechanism="SCRAM-SHA-512")
        settings = read_settings(properties_of(*self._token, mechanism="SCRAM-SHA-512"))

        def can_log_in() -> bool:
            client = Client(self._bootstrap, settings)
            try:
                client.metadata([])
            except ClientError:
                return False
            finally:
                client.close()
            return True

        wait_for(lambda: can_log_in() == is_known, f"the token is known: {is_known}")

    def _write_user(self, file: str, name: str, password: str, mechanism: str = "PLAIN") -> None:
        """Write the client properties of a user or of a delegation token."""
        properties = properties_of(name, password, mechanism)
        lines = (f"{key}={value}\n" for key, value in properties.items())
        (self._directory / f"{file}.properties").write_text("".join(lines))

    def _reassign(self, topic: str, partition: int, replicas: list[int]) -> None:
        """Start a reassignment to a stopped broker, which Kafka's tool refuses to do."""
        client = Client(self._bootstrap, read_settings({}))
        assert not alter_reassignments(client, {(topic, partition): replicas})
        client.close()

    def _produce(self, topic: str, partition: int, count: int) -> None:
        producer = kafka.KafkaProducer(bootstrap_servers=self._bootstrap)
        for number in range(count):
            producer.send(topic, b"x", partition=partition, timestamp_ms=1_000 + number).get(30)
        producer.close()

    def _join(self, group: str, topic: str, instance: str | None = None) -> None:
        """Add a member that owns all partitions of a topic and commits nothing."""
        member = kafka.KafkaConsumer(
            topic,
            bootstrap_servers=self._bootstrap,
            group_id=group,
            group_instance_id=instance,
            client_id="client",
            enable_auto_commit=False,
        )
        self._members.append(member)
        # A leader that joins before it has the topic's metadata assigns none of the topic's
        # partitions.
        wait_for(lambda: member.partitions_for_topic(topic), "it knows the topic")
        wait_for(lambda: member.poll(100) is not None and member.assignment(), "it owns partitions")

    def _transact(self, name: str, topic: str, partition: int, how: str) -> None:
        transactions = Transactions(self._address)
        producer = transactions.begin(name, topic, partition)
        if how != "open":
            transactions.end(name, producer, commits=how == "commit")
        transactions.close()

    def _hang(self, topic: str, partition: int, producer_id: int, epoch: int) -> None:
        transactions = Transactions(self._address)
        transactions.write("lost", topic, partition, producer_id, epoch)
        transactions.close()

    def _make_files(self) -> None:
        first = {"topic": f"{self._prefix}a", "partition": 0, "offset": 2}
        texts: dict[str, Any] = {
            "delete.json": {
                "partitions": [
                    first,
                    {**first, "partition": 2, "offset": -1},
                    {**first, "partition": 1, "offset": 5},
                ],
                "version": 1,
            },
            "twice.json": {"partitions": [first, first]},
            "three.json": {"partitions": [{**first, "partition": one} for one in (0, 9, 1)]},
            "none.json": {"partitions": []},
            "version.json": {"partitions": [], "version": 2},
            "empty.json": {},
            "field.json": {"partitions": [{"topic": "t"}]},
            "type.json": {"partitions": [{**first, "offset": "x"}]},
        }
        for name, content in texts.items():
            (self._directory / name).write_text(json.dumps(content))
        (self._directory / "payloads").write_text("a\nbc\n\n")
        hasty = "default.api.timeout.ms=1000\nrequest.timeout.ms=1000\n"
        controller = f"listeners=A://h:1,controller://[::1]:2\nlog.dirs={self._directory}\n"
        for number, more in enumerate(
            ("", "node.id=-1", "node.id=5", "node.id=5\nprocess.roles=controller"),
        ):
            text = f"{controller}{more}\n"
            (self._directory / f"controller{number}.properties").write_text(text)
        whole = f"{text}controller.listener.names=CONTROLLER\n"
        (self._directory / "controller.properties").write_text(whole)
        (self._directory / "unlisted.properties").write_text(whole.replace("LER\n", "LERS\n"))
        meta = f"version=1\ncluster.id={'A' * 22}\nnode.id=5\ndirectory.id={'A' * 21}Q\n"
        (self._directory / "meta.properties").write_text(meta)
        (self._directory / "hasty.properties").write_text(hasty)
        (self._directory / "text.json").write_text("partitions: none")
        plan = f"{self._prefix}a,0,1\n{self._prefix}b,0,99\n"
        (self._directory / "plan.csv").write_text(plan)
        grouped = f"{self._prefix}q,{self._prefix}a,0,1\n"
        (self._directory / "groups.csv").write_text(grouped)
        lines = "segment.ms=70000\nmax.message.bytes=2000\n"
        (self._directory / "add.properties").write_text(lines)


def without_frames(text: str) -> str:
    """Return the output without the frames of Java's stack traces."""
    return _FRAMES.sub("", "\n" + text)[1:]


def properties_of(name: str, password: str, mechanism: str = "PLAIN") -> dict[str, str]:
    """Return the client properties of a user; SCRAM is only used for delegation tokens."""
    module, token = f"{_LOGIN}.plain.PlainLoginModule", ""
    if mechanism != "PLAIN":
        module, token = f"{_LOGIN}.scram.ScramLoginModule", ' tokenauth="true"'
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": (f'{module} required username="{name}" password="{password}"{token};'),
    }


def _comparable_event(found: re.Match[str]) -> str:
    event = json.loads(found[0])
    return json.dumps({**event, "timestamp": 0, "avg_throughput": 0}, sort_keys=True)


def _without_repeats(text: str, words: str) -> str:
    """Keep the first of equal lines with these words, because the number of retries differs."""
    seen: set[str] = set()
    kept = []
    for line in text.splitlines(keepends=True):
        if line not in seen:
            kept.append(line)
        if words in line:
            seen.add(line)
    return "".join(kept)


def ours(name: str, arguments: Sequence[str], typed: str = "") -> Outcome:
    """Run one of our tools in this process."""
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="\n")
    err = io.StringIO()
    real_input, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO(typed.encode()))
    try:
        with redirect_stdout(out), redirect_stderr(err):
            code = run_script(BY_NAME[name], arguments)
            out.flush()
    finally:
        sys.stdin = real_input
    assert isinstance(out.buffer, io.BytesIO)
    return Outcome(code, out.buffer.getvalue().decode(errors="replace"), err.getvalue())


def _java(main: str, *arguments: str) -> list[str]:
    """Return the command line of a Java class, with the warnings of clients enabled."""
    return [
        word.replace("defaultLogLevel=error", "defaultLogLevel=warn")
        for word in java(main, *arguments)
    ]


def _command(tool: Tool, name: str, arguments: Sequence[str]) -> list[str]:
    """Return the command line that runs one of Kafka's tools or ours in a new process."""
    if tool is ours:
        return [sys.executable, "-m", "coordinator_server", BY_NAME[name].command, *arguments]
    return _java(CLASSES[name], *arguments)


def _run_until(text: str, command: Sequence[str], number: signal.Signals) -> Outcome:
    """Run a tool that does not end, and send a signal once it prints a line with `text`."""
    pipe = subprocess.PIPE
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    # A process that a shell starts with "&" ignores SIGINT, and a child would inherit this.
    # Set the default handler while the child starts.
    try:
        process = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True)
    finally:
        signal.signal(signal.SIGINT, before)
    with process:
        assert process.stdout is not None
        out = ""
        while line := process.stdout.readline():
            out += line
            if text in line:
                process.send_signal(number)
                break
        try:
            rest, err = process.communicate(timeout=60)
        finally:
            process.kill()
    return Outcome(process.returncode, out + rest, err)


class OfficialTools:
    """Kafka's tools, all in one JVM."""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            _java(str(TOOL_SERVER)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=60)

    def __call__(self, name: str, arguments: Sequence[str], typed: str = "") -> Outcome:
        """Run one of Kafka's tools, given its name or the name of its class."""
        if name in _ALONE:
            done = subprocess.run(
                _java(CLASSES[name], *arguments), capture_output=True, text=True, timeout=60
            )
            return Outcome(done.returncode, done.stdout, done.stderr)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        call = {"main": CLASSES.get(name, name), "arguments": list(arguments), "input": typed}
        self._process.stdin.write(json.dumps(call) + "\n")
        self._process.stdin.flush()
        return Outcome(**json.loads(self._process.stdout.readline()))


def differences(differing: Sequence[tuple[str, Outcome | None, Outcome | None]]) -> str:
    """Return a text with the cases whose outcome is not the expected outcome."""
    return "\n".join(
        f"{line}\n  expected {expected}\n  ours     {answer}"
        for line, expected, answer in differing
    )
