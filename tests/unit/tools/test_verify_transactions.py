"""`verify-log` and `snapshot` on transactional logs that Kafka or this broker wrote."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from coordinator_server.tools.verify_log import LogVerification
from storage.cleaner import Cleaning
from storage.transaction_index import ENTRY
from tests.unit.storage.support import NOW_MS, TOPIC_ID, committed, keyed, marker
from tests.unit.tools.support import flip, open_manager, run

TRANSACTIONS = Path(__file__).parents[2] / "data" / "transactions"
SETTINGS = {"internal.segment.bytes": "300", "cleanup.policy": "compact"}


def fill(directory: Path, *, compacts: bool) -> None:
    """Fill topic "t" with transactions over several segments, and leave one transaction open."""
    manager = open_manager(directory)
    manager.create_topic("t", TOPIC_ID, 1, SETTINGS)
    log = manager.log("t", 0)
    sequences = [0, 0, 0]
    for number in range(12):
        for producer_id in (1, 2):
            data = keyed(
                (b"k%d" % (number % 3), b"%d" % number),
                producer_id=producer_id,
                sequence=sequences[producer_id],
                transactional=True,
            )
            log.append(data, NOW_MS)
            sequences[producer_id] += 1
        log.append_own(marker(1, 0, commit=number % 2 == 0), NOW_MS)
        if number % 3 == 0:
            log.append_own(marker(2, 0, commit=number % 2 == 0), NOW_MS)
    if compacts:
        for _ in Cleaning(log, 0, NOW_MS).run():
            pass
    manager.close()


@pytest.fixture(params=[False, True], ids=["as written", "compacted"])
def data(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return a data directory with the transactions of `fill`."""
    fill(tmp_path / "data", compacts=request.param)
    return tmp_path / "data"


def errors(directory: Path) -> list[str]:
    """Return the findings, without the path of the directory."""
    return [one.removeprefix(f"{directory}/") for one in LogVerification(directory).run().errors]


def index_of(directory: Path) -> Path:
    """Return the first transaction index of the partition."""
    return min((directory / "t-0").glob("*.txnindex"))


def test_what_is_whole_passes(data: Path) -> None:
    """Intact transactional logs pass `verify-log`, before and after compaction."""
    assert errors(data) == []
    assert LogVerification(data).run().index_entries > 10


@pytest.mark.parametrize("name", ["plain-0", "compact/0", "compact/1", "compact/2", "compact/3"])
def test_what_kafka_wrote_is_whole(name: str, tmp_path: Path) -> None:
    """Kafka's logs pass, also after Kafka's cleaner.

    If all transaction indexes are missing, the aborted transactions are notes, not errors.
    """
    copy = Path(shutil.copytree(TRANSACTIONS / name, tmp_path / "t-0"))
    assert LogVerification(copy).run().errors == []
    listed = sum(path.stat().st_size for path in copy.glob("*.txnindex")) // ENTRY.size
    for path in copy.glob("*.txnindex"):
        path.unlink()
    findings = LogVerification(copy).run()
    assert findings.errors == []
    missed = [note for note in findings.notes if "is not listed" in note]
    assert 0 < len(missed) <= listed


def test_an_abort_that_is_not_listed_is_an_error(tmp_path: Path) -> None:
    """An abort that is missing in the index is an error: its records would be read as committed."""
    data = tmp_path / "data"
    fill(data, compacts=False)
    path = index_of(data)
    contents = path.read_bytes()
    path.write_bytes(contents[ENTRY.size :])
    (found,) = errors(data)
    assert found.startswith("t-0/")
    assert "the transaction of producer" in found
    assert found.endswith("is not listed")
    path.unlink()
    assert len(errors(data)) == len(contents) // ENTRY.size


@pytest.mark.parametrize(
    ("field", "reason"),
    [
        (0, "an entry of version 256"),
        (1, "no abort of that producer ends there"),
        (2, "it began at"),
        (3, "no abort of that producer ends there"),
        (4, "last stable offset"),
    ],
)
def test_entries_that_are_wrong(data: Path, field: int, reason: str) -> None:
    """Each field of an index entry is checked against the log."""
    flip(index_of(data), 0 if field == 0 else 2 + 8 * field - 7)
    if field == 0:
        path = index_of(data)
        path.write_bytes(b"\1\0" + path.read_bytes()[2:])
    assert any(reason in one for one in errors(data))


def test_entries_out_of_order_and_torn(data: Path) -> None:
    """A repeated entry is an error, and so is an incomplete entry."""
    path = index_of(data)
    contents = path.read_bytes()
    path.write_bytes(contents + contents[: ENTRY.size])
    assert any("no abort" in one for one in errors(data))
    path.write_bytes(contents + contents[:9])
    assert any("9 bytes of a torn entry" in one for one in errors(data))


def test_a_snapshot_has_the_transactions(data: Path, tmp_path: Path) -> None:
    """A snapshot has the same aborted and open transactions for readers as its source."""
    assert run("snapshot", "--data-dir", data, tmp_path / "copy") == 0
    assert run("restore", tmp_path / "copy", "--data-dir", tmp_path / "back") == 0
    logs = [open_manager(one).log("t", 0) for one in (data, tmp_path / "back")]
    before, after = logs
    assert before.last_stable_offset == after.last_stable_offset < before.log_end_offset
    assert committed(before) == committed(after) != []
    assert errors(tmp_path / "back") == []
