"""Kafka's command-line tools and ours print the same, both on a Kafka and on our broker."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

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
    """Yield the bootstrap servers of a broker, and the control server if it is ours."""
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


# Outside of nightly runs, tests/scripts compares our tools with Kafka's recorded output.
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
    """Kafka's tool and ours print the same and end with the same exit code.

    Each area has a separate broker, because quotas that one area leaves would slow the next area
    down. Cases about all groups are left out, because both sides have groups.
    """
    differing: list[tuple[str, Outcome | None, Outcome | None]] = []
    with (
        OfficialTools() as official,
        broker(kind, tmp_path, area.settings) as (bootstrap, control),
        # The path must not contain a hyphen, as in `popen-gw0` of tmp_path, because Kafka's tools
        # break long lines there.
        TemporaryDirectory(prefix="tools") as files,
    ):
        # The prefixes have equal lengths, because column widths depend on the contents.
        theirs, own = (
            Player(
                tool,
                bootstrap,
                prefix,
                Path(files) / prefix[0],
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
            # Kafka applies a change shortly after its response, so repeat the call. Read-only
            # calls are repeated on both brokers, refused calls on this project's broker.
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
    """The recorded options, which our tools must support, are the options of Kafka's tools."""
    with OfficialTools() as official:
        assert listed_options(official) == json.loads(RECORDED.read_text())
