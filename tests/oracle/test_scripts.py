"""Kafka's command-line tools and ours, side by side on one broker: Kafka, and ours."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from coordinator_server.testing import Control
from tests.oracle.kafka_process import Kafka
from tests.scripts.options import RECORDED, listed_options
from tests.scripts.player import (
    AREAS,
    Area,
    OfficialTools,
    Outcome,
    Player,
    cases,
    differences,
    ours,
)
from tests.support import Broker

SETTLE_SECONDS = 5.0


@contextmanager
def broker(
    kind: str, directory: Path, settings: Mapping[str, str]
) -> Iterator[tuple[str, Control | None]]:
    """The bootstrap servers of a broker, and the control server of ours."""
    if kind == "ours":
        with Broker(settings) as own:
            yield own.bootstrap_servers, own.control
        return
    apache = Kafka(directory, settings)
    try:
        apache.start()
        yield apache.bootstrap_servers, None
    finally:
        apache.end()


# Each run compares our tools on our broker with what was recorded of Kafka's: tests/scripts.
@pytest.mark.nightly
@pytest.mark.parametrize(
    ("kind", "area"),
    [
        pytest.param(kind, area, id=f"{kind}-{area.cases}")
        for kind in ("ours", "kafka")
        for area in AREAS
        if kind == "ours" or "broker.count" not in area.settings
    ],
)
def test_the_tools_print_the_same(kind: str, area: Area, tmp_path: Path) -> None:
    """Each call prints the same and ends with the same code, Kafka's tool or ours.

    Each area has a broker of its own, as one leaves quotas that would slow the next down. Cases
    about all groups are left out, as both sides have groups.
    """
    differing: list[tuple[str, Outcome | None, Outcome | None]] = []
    with (
        OfficialTools() as official,
        broker(kind, tmp_path, area.settings) as (bootstrap, control),
    ):
        # The prefixes have one length, as columns are as wide as what is in them.
        theirs, own = (
            Player(
                tool,
                bootstrap,
                prefix,
                tmp_path / prefix[0],
                hidden=hidden,
                users=area.users,
                control=control,
            )
            for tool, prefix, hidden in ((official, "k-", "u-"), (ours, "u-", "k-"))
        )
        for case in cases(area):
            if case.is_alone:
                continue
            expected, answer = theirs.play(case), own.play(case)
            end = time.monotonic() + SETTLE_SECONDS
            # A broker of Kafka's learns of a change a moment after it was acknowledged. Calls that
            # change nothing can be repeated: what only reads, and ours if it was refused.
            while answer != expected and time.monotonic() < end:
                if case.only_reads:
                    expected, answer = theirs.play(case), own.play(case)
                elif answer is not None and answer.code:
                    answer = own.play(case)
                else:
                    break
            if answer != expected:
                differing.append((case.line, expected, answer))
    assert not differing, differences(differing)


@pytest.mark.nightly
def test_the_recorded_options_are_those_of_kafkas_tools() -> None:
    """So that each of them is known to ours, as `test_recorded` sees."""
    with OfficialTools() as official:
        assert listed_options(official) == json.loads(RECORDED.read_text())
