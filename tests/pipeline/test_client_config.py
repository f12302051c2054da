"""Settings of `--client-config` reach both the admin client and the consumers."""

from __future__ import annotations

from pathlib import Path

import pytest
from kafka import KafkaConsumer, KafkaProducer
from kafka.structs import OffsetAndMetadata, TopicPartition
from pyspark.sql import SparkSession

from pipeline import schema
from pipeline.command import main
from pipeline.pieces import unpacked
from pipeline.sources.kafka import BrokerSource
from pipeline.sources.source import InputError
from tests.support import Broker


def _file(folder: Path, text: str) -> str:
    path = folder / "client.properties"
    path.write_text(text)
    return str(path)


def test_the_admin_client_takes_them(connector: SparkSession, tmp_path: Path) -> None:
    """The admin client refuses an invalid value before it connects."""
    config = _file(tmp_path, "# how we come in\nsecurity.protocol = NOT_ONE\n")
    with pytest.raises(InputError, match="NOT_ONE"):
        BrokerSource(connector, "127.0.0.1:1", client_config=config)
    with pytest.raises(InputError, match=r"--client-config .*nowhere"):
        BrokerSource(connector, "127.0.0.1:1", client_config=str(tmp_path / "nowhere"))


@pytest.mark.nightly
def test_the_readers_take_them(
    connector: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An invalid value that only consumers check is reported in one line; a valid file works."""
    with Broker() as broker:
        producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers)
        producer.send("t", b"one").get(30)
        producer.close()
        consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap_servers, group_id="g")
        consumer.commit({TopicPartition("t", 0): OffsetAndMetadata(1, "", -1)})
        consumer.close()
        good = _file(tmp_path, "client.id=lag-pipeline\n")
        log = BrokerSource(connector, broker.bootstrap_servers, client_config=good).offsets_log({})
        found = unpacked(log, schema.OFFSETS_LOG)
        assert [row["group"] for row in found.select("group").collect()] == ["g"]
        bad = _file(tmp_path, "max.partition.fetch.bytes=many\n")
        words = ["--bootstrap-server", broker.bootstrap_servers, "--client-config", bad]
        assert main(["run", *words, "--out", str(tmp_path / "out")]) == 1
        said = capsys.readouterr().err.splitlines()[-1]
        assert said.startswith(
            f"coordinator-server pipeline: --bootstrap-server {words[1]}: ConfigExc"
        )
        assert "Invalid value many for configuration max.partition.fetch.bytes" in said


def test_they_go_with_a_broker(capsys: pytest.CaptureFixture[str]) -> None:
    """`--client-config` is refused without `--bootstrap-server`."""
    words = ["run", "--log-dir", "d", "--out", "o", "--client-config", "c"]
    assert main(words) == 1
    assert "--client-config goes with --bootstrap-server" in capsys.readouterr().err
