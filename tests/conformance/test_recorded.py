"""Our broker answers every recorded scenario of its APIs like Kafka."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from coordinator_server.config.authorizer_settings import AUTHORIZER_CLASS
from protocol import REFERENCE_VERSION
from tests.conformance.answers import ANSWERS, Answers
from tests.support import AUTHORIZED, Serve

HERE = Path(__file__).parent
RECORDED = HERE / "recorded"

_UNANSWERED = "Kafka never answers it (quirks.txt); we do"

EXPLAINED = {
    "join.same_protocol_named_twice": _UNANSWERED,
    "sync.parked_sync_of_a_leaving_member": _UNANSWERED,
}
"""The expected differences, with the reasons."""

ALLOWS_ALL = {
    "authorizer.class.name": AUTHORIZER_CLASS,
    "allow.everyone.if.no.acl.found": "true",
}


def test_the_recorded_suite_is_of_the_reference_version() -> None:
    """Answers and message definitions are those of the reference version."""
    assert f"Apache Kafka {REFERENCE_VERSION} " in (RECORDED / "README.md").read_text()
    wire = (RECORDED / "suite" / "wire.py").read_text()
    assert f"Kafka {REFERENCE_VERSION}'s message definitions" in wire


def test_answers_of_an_older_release_are_kept() -> None:
    """Kafka 4.1's answers to the recorded suite are kept, and the differing ones to ours."""
    golden, older = (
        json.loads((RECORDED / f"golden{name}.json").read_text()) for name in ("", "-4.1")
    )
    assert golden.keys() == older.keys()
    areas = {name.split(".")[0] for name in golden if golden[name] != older[name]}
    assert areas == {"consumer848", "join", "versions"}
    orders = Answers.read(ANSWERS).kept
    older_orders = Answers.read(ANSWERS.with_name("orders-4.1.json")).kept
    assert older_orders.keys() <= orders.keys()
    assert all(orders[name] != steps for name, steps in older_orders.items())


@pytest.mark.real_time
@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({}, id="open"),
        pytest.param(ALLOWS_ALL, id="authorizer-that-allows-all", marks=pytest.mark.nightly),
        pytest.param(AUTHORIZED, id="super-user", marks=pytest.mark.nightly),
    ],
)
def test_the_answers_are_those_of_kafka(settings: Mapping[str, str]) -> None:
    """The recorded scenarios pass, except for the explained ones, which all still differ."""
    more = [part for pair in settings.items() for part in ("--set", "=".join(pair))]
    profiles = [("--config", str(HERE / f"profile-{name}.properties"), *more) for name in "ab"]
    with Serve("--ephemeral", *profiles[0]) as a, Serve("--ephemeral", *profiles[1]) as b:
        command = [sys.executable, str(RECORDED / "run.py"), "check", a.bootstrap_servers]
        command += [str(RECORDED / "golden.json"), "--names", str(RECORDED / "names.txt")]
        command += ["--b", b.bootstrap_servers, "-j", "8", "--patience", "2"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=500)
    lines = done.stdout.splitlines()
    failed = {line.split()[1] for line in lines if line.startswith("FAIL ")}
    passed = {line.split()[1] for line in lines if line.startswith("PASS ")}
    assert failed == EXPLAINED.keys(), done.stdout[-20_000:] + done.stderr[-2_000:]
    golden = json.loads((RECORDED / "golden.json").read_text())
    assert passed | failed >= golden.keys() & set((RECORDED / "names.txt").read_text().split())
