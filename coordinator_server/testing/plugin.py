"""The pytest plugin, loaded by its entry point: fixtures, and broker logs of failed tests.

Without a test that uses one of the fixtures, the plugin starts nothing and imports almost nothing.
Otherwise the broker is launched after test collection, so that it is ready when the first test
needs it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from coordinator_server.testing.broker import Broker

_SPARE = pytest.StashKey["Broker"]()
_LOG_STARTS = pytest.StashKey[dict[int, int]]()
_LOG_CHARACTERS = 20_000
_MODULE = "coordinator_server.testing.broker"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the ini file."""
    parser.addini(
        "kafka_settings",
        "Settings of the broker of `kafka_broker`, NAME=VALUE by Kafka's names, one a line.",
        type="linelist",
    )
    parser.addini(
        "kafka_port", "Its port; by default a free one, and another one for each test.", default="0"
    )
    parser.addini(
        "kafka_security",
        "How its clients come: ssl, sasl_plaintext or sasl_ssl; empty: without TLS and users.",
        default="",
    )
    parser.addini("kafka_log_level", "What that broker writes to its log.", default="info")


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line(
        "markers",
        "kafka_faults(**rule): add a fault rule to the broker of `kafka`, for this test "
        "(docs/faults.md)",
    )


@pytest.fixture(scope="session")
def kafka_broker(pytestconfig: pytest.Config) -> Iterator[Broker]:
    """A Kafka broker for the whole session, in its own process."""
    broker = pytestconfig.stash.get(_SPARE, None) or _new_broker(pytestconfig)
    broker.start()
    yield broker
    broker.stop()


@pytest.fixture
def kafka(kafka_broker: Broker, request: pytest.FixtureRequest) -> Broker:
    """The session's broker after a reset: no topics, groups, offsets or connections.

    The address differs from the broker's address in the previous test. A stopped or killed broker
    is started again. The markers `kafka_faults` of the test add fault rules.
    """
    if kafka_broker.is_running:
        kafka_broker.reset()
    else:
        kafka_broker.start()
    for marker in reversed(list(request.node.iter_markers("kafka_faults"))):
        if marker.args:
            raise pytest.UsageError(f"kafka_faults{marker.args}: name the fields of the rule")
        kafka_broker.faults.add(**marker.kwargs)
    return kafka_broker


def pytest_collection_finish(session: pytest.Session) -> None:
    """Launch the broker now if any test needs it, so that the first test need not wait."""
    if not session.config.option.collectonly and any(map(_wants_broker, session.items)):
        broker = session.config.stash[_SPARE] = _new_broker(session.config)
        broker.launch()


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop the broker if no test has used it."""
    broker = config.stash.get(_SPARE, None)
    if broker is not None:
        broker.stop()


def _wants_broker(item: pytest.Item) -> bool:
    """Return whether a test uses the plugin's `kafka_broker`, not an overriding fixture."""
    fixtures: Any = getattr(item, "_fixtureinfo", None)  # doctests have no fixture info
    if fixtures is None or "kafka_broker" not in fixtures.names_closure:
        return False
    definitions = fixtures.name2fixturedefs.get("kafka_broker")
    return bool(definitions) and definitions[-1].func.__module__ == __name__


def _worker_number() -> int:
    """Return the number of this pytest-xdist worker, or 0 without pytest-xdist."""
    return int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))


def _new_broker(config: pytest.Config) -> Broker:
    from coordinator_server.testing.broker import Broker

    port = config.getini("kafka_port")
    if not port.isdecimal():
        raise pytest.UsageError(f"kafka_port: {port!r} is not a number")
    try:
        return Broker(
            config.getini("kafka_settings"),
            port=int(port) and int(port) + _worker_number(),
            log_level=config.getini("kafka_log_level"),
            strict=True,
            security=config.getini("kafka_security") or None,
        )
    except ValueError as error:
        raise pytest.UsageError(f"kafka_{error}") from None


# --- broker log in the test report ----------------------------------------------------------------


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Record the current end of each broker's log before a test."""
    item.config.stash[_LOG_STARTS] = {id(broker): broker.log_size for broker in _started()}


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, None]:
    """Add the broker logs written since the start of the test to the report of a failure."""
    outcome = yield
    report: pytest.TestReport = outcome.get_result()
    if not report.failed:
        return
    starts = item.config.stash.get(_LOG_STARTS, {})
    for broker in _started():
        text = broker.log_since(starts.get(id(broker), 0))
        if len(text) > _LOG_CHARACTERS:
            text = f"(...)\n{text[-_LOG_CHARACTERS:]}"
        if text:
            report.sections.append((f"Log of {broker!r}", text))


def _started() -> tuple[Broker, ...]:
    """Return all brokers started in this process; empty if the broker's module was not imported."""
    module = sys.modules.get(_MODULE)
    return () if module is None else tuple(module.STARTED)
