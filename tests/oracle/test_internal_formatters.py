"""Kafka's and our console consumer format the internal topics of our broker alike."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scripts.player import SETTINGS, OfficialTools, Player, ours, read_case
from tests.support import Broker

PACKAGE = "org.apache.kafka.tools.consumer"
INTERNAL = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"}
USE = (
    # The records have old timestamps, which retention would delete.
    "kafka-topics --create --topic @a --partitions 2 --config retention.ms=-1",
    "produce @a 0 3",
    "kafka-console-consumer --topic @a --group @g --from-beginning --max-messages 2",
    "kafka-consumer-groups --reset-offsets --group @x --topic @a --to-offset 1 --execute",
    "kafka-consumer-groups --delete --group @x",
    "transact @done @a 0 commit",
    "transact @open @a 1 open",
)
READ = tuple(
    f"kafka-console-consumer --topic {topic} --partition 0 --offset earliest --timeout-ms 2000"
    f" --formatter {PACKAGE}.{name}"
    for topic in ("__consumer_offsets", "__transaction_state", "@a")
    for name in (
        "OffsetsMessageFormatter",
        "GroupMetadataMessageFormatter",
        "TransactionLogMessageFormatter",
    )
)


@pytest.mark.nightly
def test_the_formatters_print_the_same(tmp_path: Path) -> None:
    """Records of all types, tombstones, and records of other topics are printed alike."""
    with Broker({**SETTINGS, **INTERNAL}) as broker, OfficialTools() as official:
        theirs = Player(official, broker.bootstrap_servers, "k-", tmp_path / "k")
        own = Player(ours, broker.bootstrap_servers, "k-", tmp_path / "u")
        for line in USE:
            outcome = theirs.play(read_case(line))
            assert outcome is None or outcome.code == 0, outcome
        for line in READ:
            case = read_case(line)
            expected = theirs.play(case)
            assert own.play(case) == expected, line
