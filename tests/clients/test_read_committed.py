"""Real read_committed consumers with segments that Kafka 4.1 wrote.

Our broker serves the aborted transactions and the last stable offset. The segments are described in
`tests/unit/storage/test_kafka_transactions`.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.readers import (
    READERS,
    Reader,
)
from tests.support import ROOT, Broker

SEGMENTS = ROOT / "tests" / "data" / "transactions" / "plain-0"
LAST_STABLE_OFFSET = 94
COMMITTED = 47


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker that starts with Kafka's segments in its directory, without any other files."""
    data = tmp_path_factory.mktemp("theirs")
    directory = data / "plain-0"
    shutil.copytree(
        SEGMENTS,
        directory,
        copy_function=shutil.copyfile,
        ignore=shutil.ignore_patterns("*.txnindex"),
    )
    metadata = "version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw"
    Path(directory / "partition.metadata").write_text(metadata)
    with Broker(data_dir=data) as running:
        yield running


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.__name__)
def test_committed_records_and_no_other(broker: Broker, reader: Reader) -> None:
    """Only records outside of transactions and of committed transactions arrive.

    Reading ends at the open transaction.
    """
    found = reader(broker.bootstrap_servers, "plain")
    assert len(found) == COMMITTED
    assert found == sorted(found)
    assert found[-1][0] < LAST_STABLE_OFFSET
    for _, _, value in found:
        assert value is None or not (b"aborted" in value or value.startswith(b"yyy"))


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.__name__)
def test_all_records_for_who_does_not_mind(broker: Broker, reader: Reader) -> None:
    """With read_uncommitted, records of aborted and of open transactions arrive, too."""
    found = reader(broker.bootstrap_servers, "plain", "read_uncommitted")
    assert [value for _, _, value in found].count(b"c-open") == 1
    assert found[-1][2] == b"plain-behind-open"
    assert len(found) > COMMITTED + 20
