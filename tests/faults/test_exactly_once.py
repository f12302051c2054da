"""Transactional pipelines process each record once while brokers are killed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.exactly_once import Fire


@pytest.mark.nightly
@pytest.mark.real_time
@pytest.mark.parametrize("brokers", [pytest.param(1, marks=pytest.mark.nightly), 3])
def test_every_record_comes_out_once(tmp_path: Path, brokers: int) -> None:
    """Killed brokers and pipelines and moved coordinators lose, duplicate or reorder no record."""
    fire = Fire(str(tmp_path), seed=brokers, brokers=brokers)
    try:
        fire.burn(60)
        assert fire.check() > 5000
    finally:
        fire.close()
    assert fire.deeds["broker"] > 2
    assert fire.deeds["pipeline"] > 2
