"""Fixtures of the client tests: a broker, unique names, groups of processes.

With COORDINATOR_TEST_BOOTSTRAP=HOST:PORT all tests except those that need `start_broker` use that
broker instead, which shows whether Apache Kafka itself passes them. That broker must have the
settings in `SETTINGS`.
"""

import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.clients import copies
from tests.clients.support import Group, set_group_configs
from tests.clients.worker import CONFLUENT_KAFKA_CONSUMER, Settings
from tests.left_out import leave_out
from tests.support import Broker

OTHER_LANGUAGES = ("test_other_languages.py", "test_prometheus.py")
EXTERNAL = os.environ.get("COORDINATOR_TEST_BOOTSTRAP")
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
    "group.consumer.min.session.timeout.ms": "100",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "250",
    "group.consumer.assignment.interval.ms": "100",
    # Tests write records with old timestamps; a retention check would delete them after five
    # minutes.
    "log.retention.ms": "-1",
}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests that cannot run on this machine.

    These are tests with `start_broker` when the broker is external, and tests in other languages
    when their tools are missing (in CI they fail instead).
    """
    foreign = [item for item in items if item.path.name in OTHER_LANGUAGES]
    reason = copies.missing() if foreign and not os.environ.get("CI") else None
    if reason is not None:
        line = f"{len(foreign)} tests of Go and Node.js programs left out: {reason}"
        leave_out(config, items, foreign, line)
    if EXTERNAL is None:
        return
    ours = [item for item in items if "start_broker" in getattr(item, "fixturenames", ())]
    config.hook.pytest_deselected(items=ours)
    items[:] = [item for item in items if item not in ours]


def check_log(broker: Broker) -> None:
    """Check that the broker logged no error."""
    wrong = [*broker.log_lines("[error"), *broker.log_lines("Traceback")]
    assert not wrong, f"{wrong[0]}\n{broker.log[-4000:]}"


@pytest.fixture(scope="session")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a broker that all tests share."""
    if EXTERNAL is not None:
        yield EXTERNAL
        return
    data = tmp_path_factory.mktemp("broker") / "data"
    with Broker(SETTINGS, data_dir=data) as broker:
        yield broker.bootstrap_servers
        check_log(broker)


@pytest.fixture
def start_broker(tmp_path: Path) -> Iterator[Callable[..., Broker]]:
    """A function that starts a broker for one test."""
    with ExitStack() as stack:

        def start(**settings: str) -> Broker:
            named = {name.replace("_", "."): value for name, value in settings.items()}
            broker = Broker({**SETTINGS, **named}, data_dir=tmp_path / "broker-data")
            stack.enter_context(broker)
            stack.callback(check_log, broker)
            return broker

        yield start


@pytest.fixture
def name() -> str:
    """A topic or group name that no other test uses."""
    return f"t-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def start_group(tmp_path: Path, name: str) -> Iterator[Callable[..., Group]]:
    """A function that starts groups of processes that consume the topic `name`."""
    groups: list[Group] = []

    def start(
        bootstrap: str,
        client: str,
        assignor: str,
        session_timeout_ms: int = 10_000,
        *,
        changes_protocol: bool = False,
    ) -> Group:
        asked = Settings(
            client, bootstrap, f"{name}-{len(groups)}", [name], assignor, session_timeout_ms
        )
        if changes_protocol or client == CONFLUENT_KAFKA_CONSUMER:
            # For the consumer protocol the session timeout is a group config. The member cannot
            # choose it.
            session = {"consumer.session.timeout.ms": str(session_timeout_ms)}
            set_group_configs(bootstrap, asked.group, session)
        groups.append(Group(tmp_path, asked))
        return groups[-1]

    try:
        yield start
    finally:
        for group in groups:
            group.end()
