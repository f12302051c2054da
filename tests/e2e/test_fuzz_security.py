"""Fuzzing of the security parsers, and of listeners with TLS and SASL in the real process.

FUZZ_INPUTS and FUZZ_SEED choose another long run.
"""

from __future__ import annotations

import multiprocessing
import os
import ssl
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from math import ceil
from pathlib import Path

import pytest
import uvloop

from tests.e2e.fuzz_connections import fuzz_sasl, fuzz_tls
from tests.e2e.fuzz_parsers import Report, fuzz, shares, table
from tests.e2e.fuzz_surfaces import SURFACES
from tests.e2e.neighbours import MOST_RESIDENT_MB, Neighbour, check_waits, first_bug
from tests.machine import slowness
from tests.secured import SecuredBroker

SEED = int(os.environ.get("FUZZ_SEED", "3"))
INPUTS = int(os.environ.get("FUZZ_INPUTS", "1000000"))
SOME_INPUTS = 12_000
SHARES = {"sasl": 0.13, "sasl over tls": 0.012, "tls": 0.018}
"""Shares of a long run that go over sockets; the rest goes to the parsers."""
PART = 4000
MOST_GROWN_MB = 200
ENOUGH = 1000
"""With this many inputs, a surface has at least one valid one."""
NEVER_ACCEPTED = {"scram_final"}
"""Surfaces whose valid inputs cannot arise by chance."""


def check(reports: list[Report]) -> None:
    """Check that each surface accepts and refuses inputs, without a problem or high memory use."""
    print(table(reports))
    assert [problem for one in reports for problem in one.problems][:9] == [], f"seed {SEED}"
    assert max(one.grown_mb for one in reports) < MOST_GROWN_MB
    for name in SURFACES:
        of_surface = [one for one in reports if one.name == name]
        assert sum(one.refused for one in of_surface) > 0, name
        if name not in NEVER_ACCEPTED and sum(one.inputs for one in of_surface) >= ENOUGH:
            assert sum(one.accepted for one in of_surface) > 0, name


def test_parsers_bear_some_inputs() -> None:
    """Each parser refuses invalid inputs with its own errors, in little time and memory."""
    work = partial(fuzz, seed=SEED, slowness=slowness())
    check([work(name, count) for name, count in shares(SOME_INPUTS)])


@pytest.mark.nightly
def test_parsers_bear_many_inputs() -> None:
    """Each parser passes the same checks in a long run, on two processors."""
    work = partial(fuzz, slowness=slowness())
    inputs = round(INPUTS * (1 - sum(SHARES.values())))
    parts = [
        (name, min(PART, count - begun), SEED * 1000 + begun // PART)
        for name, count in shares(inputs)
        for begun in range(0, count, PART)
    ]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(2, mp_context=context) as pool:
        reports = list(pool.map(work, *zip(*parts, strict=True)))
    merged = [_merged([one for one in reports if one.name == name]) for name in SURFACES]
    check(merged)
    assert sum(one.inputs for one in merged) + sum(socket_inputs().values()) >= INPUTS


def socket_inputs(total: int = INPUTS) -> dict[str, int]:
    """Return the number of frames and flights that go over sockets."""
    return {name: ceil(total * share) for name, share in SHARES.items()}


@pytest.mark.parametrize(
    "total", [SOME_INPUTS * 3, pytest.param(INPUTS, marks=pytest.mark.nightly)]
)
def test_listeners_bear_damaged_conversations(tmp_path: Path, total: int) -> None:
    """Damaged SASL conversations, with and without TLS, and damaged TLS records do no harm.

    The broker stays up and small, no handler fails, and another client is served all the time.
    """
    settings = {"connection.failed.authentication.delay.ms": "0"}
    broker = SecuredBroker(tmp_path, settings, log_level="error")
    broker.start()
    try:
        inputs = socket_inputs(total)
        trusting = ssl.create_default_context(cafile=broker.truststore)
        known = ssl.create_default_context(cafile=broker.truststore)
        known.load_cert_chain(broker.keystore)
        older = ssl.create_default_context(cafile=broker.truststore)
        older.load_cert_chain(broker.keystore)
        older.maximum_version = ssl.TLSVersion.TLSv1_2
        addresses, password = broker.addresses, broker.password
        runs = {
            "sasl": fuzz_sasl(addresses["SASL"], password, inputs["sasl"], SEED),
            "sasl over tls": fuzz_sasl(
                addresses["SASLTLS"], password, inputs["sasl over tls"], SEED, trusting
            ),
            "tls": fuzz_tls(addresses["MUTUAL"], [trusting, known, older], inputs["tls"], SEED),
        }
        neighbour = Neighbour(broker.serve)
        neighbour.start()
        results = {name: uvloop.run(run) for name, run in runs.items()}
        neighbour.end()
        for name, counts in results.items():
            print(name, vars(counts))
            assert counts.sent >= inputs[name]
            # Some conversations must succeed, and the broker must close some connections.
            assert counts.sessions > inputs[name] / 50
            assert counts.closed > inputs[name] / 50
            assert counts.given_up < counts.conversations / 2
        assert first_bug(broker.serve.log) == "", f"seed {SEED}"
        assert not broker.serve.log_lines("[error"), f"seed {SEED}"
        check_waits(neighbour.waits)
        assert broker.serve.resident_mb() < MOST_RESIDENT_MB
        assert broker.serve.stop() == 0
    finally:
        broker.end()


def _merged(reports: list[Report]) -> Report:
    """Merge the reports of one surface."""
    return Report(
        reports[0].name,
        sum(one.accepted for one in reports),
        sum(one.refused for one in reports),
        max(one.slowest for one in reports),
        max(one.grown_mb for one in reports),
        [problem for one in reports for problem in one.problems],
    )
