"""`dump-log`: the facts of Kafka's own dump, readable lines, old formats, damage."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from coordinator_server.core.transactions.metadata import TransactionState
from protocol.batch import Record, build_batch
from protocol.compression import Compression, compress
from protocol.share_state_log import (
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareUpdateKey,
    StateBatch,
    encode_share_state_key,
    encode_share_state_value,
)
from storage.transaction_index import TRANSACTION_INDEX_SUFFIX
from tests.legacy_entries import legacy_entry
from tests.unit.tools.facts import BATCH_FACTS, FACT
from tests.unit.tools.support import (
    OLDER_SEGMENTS,
    SEGMENT_NAMES,
    SEGMENTS,
    flip,
    make_data_directory,
    run,
)

LOG = f"{0:020d}.log"
RECORD_FACTS = {
    "offset": "offset",
    "keySize": "key_size",
    "valueSize": "value_size",
    "sequence": "sequence",
}


def json_lines(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> list[dict[str, Any]]:
    """Return the output of `dump-log --json`."""
    run("dump-log", "--json", *arguments)
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def of_kind(lines: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    """Return the lines about batches, records, damage or entries."""
    return [line for line in lines if line["kind"] == kind]


def as_kafka_prints(opened: dict[str, Any], tag: str) -> dict[str, Any]:
    """Return a decoded key or value as in Kafka's dump, where the version is a string."""
    return {tag: str(opened[tag]), "data": opened["data"]}


@pytest.mark.parametrize("segments", [SEGMENTS, OLDER_SEGMENTS], ids=lambda path: path.name)
@pytest.mark.parametrize("name", SEGMENT_NAMES)
def test_the_dump_has_the_facts_of_kafkas_own(
    segments: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Our dump has every fact about batches and records in Kafka's dump of the segment."""
    ours = json_lines(capsys, segments / name / LOG)
    theirs = (segments / f"{name}.dump.txt").read_text().splitlines()
    assert not of_kind(ours, "damage")
    batches, records = (
        [line for line in theirs if line.startswith(start)] for start in ("baseOffset", "| offset")
    )
    assert len(batches) == len(of_kind(ours, "batch"))
    for our, line in zip(of_kind(ours, "batch"), batches, strict=True):
        facts = dict(FACT.findall(line))
        assert facts["isvalid"] == "true"
        assert {name: str(our[ours_]).lower() for name, ours_ in BATCH_FACTS.items()} == {
            name: facts[name] for name in BATCH_FACTS
        }
        assert our["max_timestamp_ms"] == int(facts[our["timestamp_type"]])
        horizon = facts["deleteHorizonMs"]
        assert our["delete_horizon_ms"] == -1
        assert horizon == "OptionalLong.empty"
    assert len(records) == len(of_kind(ours, "record"))
    for our, line in zip(of_kind(ours, "record"), records, strict=True):
        facts = dict(FACT.findall(line))
        assert our["timestamp_ms"] == int(facts["CreateTime"])
        for their_name, our_name in RECORD_FACTS.items():
            assert our[our_name] == int(facts[their_name]), their_name
        compare_contents(our, line)


def compare_contents(our: dict[str, Any], line: str) -> None:
    """Compare key and value of a record, or the marker of a transaction."""
    if "endTxnMarker" in line:
        facts = dict(FACT.findall(line))
        assert our["marker"] == facts["endTxnMarker"]
        assert our["coordinator_epoch"] == int(facts["coordinatorEpoch"])
        return
    key, _, payload = line.partition(" key: ")[2].partition(" payload: ")
    if not key.startswith("{"):
        assert (our["key"], our["value"]) == (key, payload)
        return
    assert as_kafka_prints(our["key"], "type") == json.loads(key)
    if payload == "<DELETE>":
        assert our["value"] is None
    else:
        value = json.loads(payload)
        status = value["data"].get("transactionStatus")
        if isinstance(status, int):  # Kafka prints this name since 4.4.
            value["data"]["transactionStatus"] = TransactionState(status).label
        assert as_kafka_prints(our["value"], "version") == value


def test_the_readable_form_names_groups_and_offsets(capsys: pytest.CaptureFixture[str]) -> None:
    """The readable form shows commits, tombstones and transaction markers in words."""
    assert run("dump-log", SEGMENTS / "__consumer_offsets-0" / LOG) == 0
    shown = capsys.readouterr().out
    assert 'OffsetCommit(group="g-txn", topic="life", partition=1) = v4(offset=1,' in shown
    assert 'OffsetCommit(group="g-expired-simple", topic="life", partition=2) = tombstone' in shown
    assert "ABORT coordinator epoch 0" in shown
    assert "producer 1001 epoch 4 sequence -1--1 transactional control" in shown


def test_contents_can_be_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--as selects the decoder for a file outside its partition directory.

    Without --as, keys are printed as bytes.
    """
    file = tmp_path / LOG
    file.write_bytes((SEGMENTS / "__consumer_offsets-2" / LOG).read_bytes())
    plain = of_kind(json_lines(capsys, file), "record")
    assert "base64" in plain[0]["key"]
    opened = of_kind(json_lines(capsys, "--as", "offsets", file), "record")
    assert opened[0]["key"]["data"]["group"] == "g-offdel"
    assert not of_kind(json_lines(capsys, "--headers", file), "record")


def test_the_state_of_share_groups_is_opened(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The directory name __share_group_state selects the decoder of share group state.

    Snapshots, updates and tombstones are shown.
    """
    snapshot = ShareSnapshotKey(group_id="g", partition=3)
    value = ShareSnapshotValue(start_offset=9, state_batches=[StateBatch(last_offset=2)])
    records = [
        Record(0, 0, encode_share_state_key(snapshot), encode_share_state_value(value)),
        Record(1, 0, encode_share_state_key(ShareUpdateKey(group_id="g")), None),
        Record(2, 0, b"\0\x09", b"?"),
    ]
    directory = tmp_path / "__share_group_state-7"
    directory.mkdir()
    (directory / LOG).write_bytes(build_batch(records).to_bytes())
    state, tombstone, unknown = of_kind(json_lines(capsys, directory / LOG), "record")
    assert (state["key"]["name"], state["key"]["data"]["groupId"]) == ("ShareSnapshot", "g")
    assert state["value"]["data"]["startOffset"] == 9
    assert state["value"]["data"]["stateBatches"][0]["lastOffset"] == 2
    assert (tombstone["key"]["name"], tombstone["value"]) == ("ShareUpdate", None)
    assert unknown["key"]["undecodable"] == "a share state key of type 9"


def test_every_file_of_a_partition_is_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Logs of all codecs, indexes and snapshots are shown entry by entry."""
    make_data_directory(tmp_path)
    directory = tmp_path / "t-0"
    files = sorted(path for path in directory.iterdir() if path.suffix not in ("", ".metadata"))
    lines = json_lines(capsys, *files)
    assert not of_kind(lines, "damage")
    batches = of_kind(lines, "batch")
    assert {line["compression"] for line in batches} == {"none", "gzip", "snappy", "lz4", "zstd"}
    assert [line["offset"] for line in of_kind(lines, "record")] == list(range(180))
    entries = of_kind(lines, "index")
    places = {(line["file"], line["position"]): line["last_offset"] for line in batches}
    assert entries
    for entry in entries:
        log = entry["file"].replace(".index", ".log")
        assert places[log, entry["position"]] == entry["offset"]
    assert of_kind(lines, "timeindex")
    assert {line["producer_id"] for line in of_kind(lines, "producer")} == {7}


def test_aborted_transactions_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The transaction index shows producer and offsets of aborted transactions."""
    file = tmp_path / f"{0:020d}{TRANSACTION_INDEX_SUFFIX}"
    file.write_bytes(struct.pack(">hqqqq", 0, 1001, 2, 3, 4) + b"torn")
    aborted, damage = json_lines(capsys, file)
    assert (aborted["producer_id"], aborted["first_offset"], aborted["last_offset"]) == (1001, 2, 3)
    assert (damage["position"], damage["reason"]) == (34, "4 bytes of a torn entry")


def test_old_formats_are_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Messages of formats 0 and 1, also compressed messages, are shown like others."""
    inner = legacy_entry(1, 0, b"two") + legacy_entry(1, 1, b"three")
    file = tmp_path / LOG
    file.write_bytes(
        legacy_entry(0, 0, b"zero")
        + legacy_entry(1, 1, b"one")
        + legacy_entry(1, 3, compress(Compression.GZIP, inner), attributes=Compression.GZIP)
    )
    lines = json_lines(capsys, file)
    assert [line["magic"] for line in of_kind(lines, "batch")] == [0, 1, 1]
    found = [(line["offset"], line["value"]) for line in of_kind(lines, "record")]
    assert found == [(0, "zero"), (1, "one"), (2, "two"), (3, "three")]


def test_damage_is_named_and_the_rest_is_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A flipped byte hides one batch, and a torn tail hides the last batch.

    Each damage is reported with its position.
    """
    source = SEGMENTS / "__consumer_offsets-3" / LOG
    whole = json_lines(capsys, source)
    batches = of_kind(whole, "batch")
    file = tmp_path / LOG
    file.write_bytes(source.read_bytes()[:-10])
    flip(file, batches[1]["position"] + 70)
    lines = json_lines(capsys, "--as", "offsets", file)
    first, second = of_kind(lines, "damage")
    assert first["position"] == batches[1]["position"]
    assert first["reason"].startswith("CRC is ")
    assert second["position"] == batches[-1]["position"]
    assert "torn batch" in second["reason"]
    left = [line["base_offset"] for line in of_kind(lines, "batch")]
    assert left == [
        line["base_offset"] for line in batches if line not in (batches[1], batches[-1])
    ]
    assert run("dump-log", file) == 1
    assert f"DAMAGED at {first['position']}: CRC is " in capsys.readouterr().out


def test_bytes_without_sense_end_the_dump(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The dump ends with position, reason and exit code 1 where no batch can start."""
    file = tmp_path / LOG
    file.write_bytes(bytes(200))
    (line,) = json_lines(capsys, file)
    assert (line["position"], line["reason"]) == (0, "impossible batch size 12")


def test_other_files_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file that is not part of a partition, or is missing, gives one line and exit code 2."""
    (tmp_path / "notes.txt").write_text("")
    assert run("dump-log", tmp_path / "notes.txt") == 2
    assert "not a file of a partition" in capsys.readouterr().err
    assert run("dump-log", tmp_path / LOG) == 2
    assert capsys.readouterr().err.endswith(f"{LOG}: No such file or directory\n")
