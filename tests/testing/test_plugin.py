"""The plugin in separate pytest runs: fixtures, reports, xdist, asyncio, and cost."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support import free_port
from tests.testing.support import is_alive, outcomes, wait_for_end, written_pids

pytest_plugins = ["pytester"]

QUIET = ("-p", "no:cacheprovider", "-W", "ignore")


def test_fixtures_are_there_unasked(pytester: pytest.Pytester) -> None:
    """Without a conftest or import, `kafka` is clean in each test, and `kafka_broker` is shared."""
    pytester.makepyfile(
        """
        import kafka as kafka_python
        import pytest

        addresses = []

        @pytest.mark.parametrize("number", range(3))
        def test_clean(kafka, kafka_broker, number):
            assert kafka is kafka_broker
            addresses.append(kafka.bootstrap_servers)
            assert len(set(addresses)) == number + 1
            assert kafka.topics() == {}
            with kafka_python.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
                producer.send("orders", b"x")
            assert kafka.consume("orders")[0].value == b"x"

        def test_not_reset(kafka_broker):
            assert kafka_broker.topics() == {"orders": 1}

        def test_killed(kafka):
            kafka.kill()

        def test_there_again(kafka):
            assert kafka.topics() == {}

        class TestClass:
            def test_in_a_class(self, kafka):
                kafka.produce("orders", "x")
        """
    )
    assert outcomes(pytester.runpytest_subprocess(*QUIET)) == {"passed": 7}


def test_settings_of_the_ini_file(pytester: pytest.Pytester) -> None:
    """kafka_settings, kafka_log_level and kafka_port in the ini file configure the broker."""
    pytester.makeini(
        """
        [pytest]
        kafka_log_level = debug
        kafka_settings =
            num.partitions=4
            log.cleanup.policy=compact,delete
        """
    )
    pytester.makepyfile(
        """
        def test_settings(kafka):
            kafka.create_topic("orders")
            assert kafka.topics() == {"orders": 4}
            assert kafka.settings["log.cleanup.policy"] == "compact,delete"
            assert kafka.settings["group.initial.rebalance.delay.ms"] == "0"
        """
    )
    assert outcomes(pytester.runpytest_subprocess(*QUIET)) == {"passed": 1}
    result = pytester.runpytest_subprocess(*QUIET, "-o", "kafka_port=any")
    result.stderr.fnmatch_lines(["*kafka_port: 'any' is not a number*"])
    result = pytester.runpytest_subprocess(*QUIET, "-o", "kafka_settings=num.partitions=many")
    result.stdout.fnmatch_lines(["*num.partitions: 'many' is not a number*"])


def test_a_broker_of_the_users_own(pytester: pytest.Pytester) -> None:
    """Tests with an overridden `kafka_broker` use that broker, and no other is started."""
    pytester.makeconftest(
        """
        import pytest
        from coordinator_server.testing import Broker
        from coordinator_server.testing.broker import STARTED

        @pytest.fixture(scope="session")
        def kafka_broker():
            assert not STARTED
            with Broker(num_partitions=9) as broker:
                yield broker
        """
    )
    pytester.makepyfile(
        """
        def test_own(kafka):
            kafka.create_topic("orders")
            assert kafka.topics() == {"orders": 9}
        """
    )
    assert outcomes(pytester.runpytest_subprocess(*QUIET)) == {"passed": 1}


def test_nothing_is_started_unless_asked_for(pytester: pytest.Pytester) -> None:
    """A test without the fixtures starts no broker and imports only the small testing package."""
    pytester.makepyfile(
        """
        import sys

        def test_other():
            from coordinator_server.testing.broker import STARTED

            assert not STARTED
            loaded = [name for name in sys.modules if name.startswith("coordinator_server.")]
            assert all(name.startswith("coordinator_server.testing") for name in loaded), loaded
            assert not {"construct", "structlog", "uvloop"} & set(sys.modules)
        """
    )
    assert outcomes(pytester.runpytest_subprocess(*QUIET)) == {"passed": 1}
    pytester.makepyfile(
        test_it="def test_it(kafka): pass",
        conftest="""
        def pytest_unconfigure(config):
            from coordinator_server.testing.broker import STARTED
            print("started:", len(STARTED))
        """,
    )
    result = pytester.runpytest_subprocess(*QUIET, "-s", "--collect-only", "test_it.py")
    result.stdout.fnmatch_lines(["started: 0"])


def test_a_failure_shows_what_the_broker_said(pytester: pytest.Pytester) -> None:
    """The report of a failed test has the broker's log of that test; other reports have no log."""
    pytester.makepyfile(
        """
        from coordinator_server.testing import Broker

        def test_before(kafka):
            kafka.create_topic("topic-before")

        def test_fails(kafka):
            kafka.create_topic("topic-of-failure")
            assert False

        def test_own_broker_fails():
            with Broker() as broker:
                broker.create_topic("topic-of-own")
                assert False

        def test_passes(kafka):
            kafka.create_topic("topic-of-success")
        """
    )
    result = pytester.runpytest_subprocess(*QUIET)
    assert outcomes(result) == {"passed": 2, "failed": 2}
    text = result.stdout.str()
    assert text.count("Log of <Broker at 127.0.0.1:") == 2
    assert "topic=topic-of-failure" in text
    assert "topic=topic-of-own" in text
    assert "topic=topic-of-success" not in text
    assert "topic.created" in text
    assert "partitions=1 topic=topic-before" not in text


def test_a_wait_that_fails_ends_in_the_test(pytester: pytest.Pytester) -> None:
    """The report shows the line of the test and the explanation, and none of our code."""
    pytester.makepyfile(
        """
        def test_waits(kafka):
            kafka.wait_for_group("app", members=2, timeout=0.1)
        """
    )
    text = pytester.runpytest_subprocess(*QUIET).stdout.str()
    assert "group 'app' was not Stable with 2 members within 0.1 s" in text
    assert "deadline" not in text
    assert "helpers.py" not in text.replace("testing.helpers.WaitTimeout", "")


@pytest.mark.parametrize("workers", [2, pytest.param(4, marks=pytest.mark.nightly)])
def test_workers_of_xdist_do_not_meet(pytester: pytest.Pytester, workers: int) -> None:
    """Each xdist worker has its own broker, so equal names used at the same time do not clash."""
    pytester.makepyfile(
        f"""
        import os
        import pathlib
        import pytest

        @pytest.mark.parametrize("number", range(60))
        def test_clean(kafka, number):
            worker = os.environ["PYTEST_XDIST_WORKER"]
            pathlib.Path({str(pytester.path)!r}, f"{{worker}}.pid").write_text(f"{{kafka.pid}}\\n")
            assert kafka.topics() == {{}}
            kafka.produce("orders", *[f"{{worker}}-{{number}}"] * 20)
            values = {{one.value for one in kafka.consume("orders", 20)}}
            assert values == {{f"{{worker}}-{{number}}".encode()}}
            assert len(kafka.consume("orders", None)) == 20
        """
    )
    result = pytester.runpytest_subprocess(*QUIET, "-n", str(workers))
    assert outcomes(result) == {"passed": 60}
    pids = written_pids(pytester.path, workers)
    assert len(set(pids)) == workers
    for pid in pids:
        wait_for_end(pid)


def test_workers_of_xdist_share_no_port(pytester: pytest.Pytester) -> None:
    """With a fixed kafka_port, worker 0 uses that port and worker 1 the next one."""
    pytester.makepyfile(
        """
        import os

        import pytest

        @pytest.mark.parametrize("number", range(8))
        def test_port(kafka, pytestconfig, number):
            port = int(pytestconfig.getini("kafka_port"))
            worker = int(os.environ["PYTEST_XDIST_WORKER"].removeprefix("gw"))
            assert kafka.bootstrap_servers == f"127.0.0.1:{port + worker}"
        """
    )
    port = f"kafka_port={free_ports(2)}"
    result = pytester.runpytest_subprocess(*QUIET, "-n", "2", "-o", port)
    assert outcomes(result) == {"passed": 8}


def free_ports(count: int) -> int:
    """Return the first port of a range in which nothing listens."""
    while True:
        first = free_port()
        with ExitStack() as stack:
            try:
                for port in range(first, first + count):
                    stack.enter_context(socket.create_server(("127.0.0.1", port)))
            except OSError:
                continue
            return first


def test_asyncio_tests(pytester: pytest.Pytester) -> None:
    """With pytest-asyncio and aiokafka, awaited helpers do not block the consumer."""
    pytester.makeini("[pytest]\nasyncio_mode = auto")
    pytester.makepyfile(
        """
        import asyncio
        import aiokafka

        async def test_consumer(kafka):
            await kafka.aio.produce("orders", "a")
            consumer = aiokafka.AIOKafkaConsumer(
                "orders",
                bootstrap_servers=kafka.bootstrap_servers,
                group_id="app",
                auto_offset_reset="earliest",
            )
            starting = asyncio.create_task(consumer.start())
            group = await kafka.aio.wait_for_group("app", members=1)
            await starting
            assert group.members[0].assignment == (("orders", 0),)
            assert (await consumer.getone()).value == b"a"
            await consumer.commit()
            assert await kafka.aio.committed("app") == {("orders", 0): 1}
            await consumer.stop()
        """
    )
    assert outcomes(pytester.runpytest_subprocess(*QUIET)) == {"passed": 1}


SLEEPING = """
    import os
    import pathlib
    import time
    import pytest
    {setup}

    def note(broker, name):
        path = pathlib.Path({directory!r}, name)
        path.with_suffix(".new").write_text(f"{{broker.pid}}\\n")
        path.with_suffix(".new").rename(path.with_suffix(".pid"))

    @pytest.mark.parametrize("number", range(2))
    def test_sleeps(kafka, number):
        note(kafka, f"broker-{{os.getpid()}}")
        time.sleep(600)
"""


@pytest.mark.parametrize("arguments", [(), ("-n", "2")], ids=["alone", "xdist"])
@pytest.mark.real_time
def test_no_broker_outlives_a_killed_run(
    pytester: pytest.Pytester, arguments: tuple[str, ...]
) -> None:
    """After SIGKILL of pytest or of xdist's controller, the brokers end by themselves."""
    pytester.makepyfile(SLEEPING.format(setup="", directory=str(pytester.path)))
    pids = _killed(pytester.path, arguments, brokers=2 if arguments else 1)
    for pid in pids:
        wait_for_end(pid)


def test_no_spare_outlives_a_killed_run(pytester: pytest.Pytester) -> None:
    """The broker that is launched before the first test ends with a killed run as well."""
    pytester.makeconftest(
        f"""
        import pathlib
        import time
        import pytest

        @pytest.hookimpl(trylast=True)
        def pytest_collection_finish(session):
            from coordinator_server.testing.broker import STARTED
            (spare,) = STARTED
            path = pathlib.Path({str(pytester.path)!r}, "spare.new")
            path.write_text(f"{{spare.pid}}\\n")
            path.rename(path.with_suffix(".pid"))
            time.sleep(600)
        """
    )
    pytester.makepyfile("def test_it(kafka): pass")
    (pid,) = _killed(pytester.path, (), brokers=1)
    wait_for_end(pid)


def test_an_interrupted_run_stops_its_broker(pytester: pytest.Pytester) -> None:
    """Ctrl-C interrupts pytest; the broker is stopped cleanly when its fixture ends."""
    pytester.makepyfile(SLEEPING.format(setup="", directory=str(pytester.path)))
    run = _started(pytester.path, ())
    try:
        (pid,) = written_pids(pytester.path, 1)
        os.killpg(run.pid, signal.SIGINT)
        assert run.wait(30) == pytest.ExitCode.INTERRUPTED
        assert not is_alive(pid)
    finally:
        run.kill()
        run.wait()


def _started(directory: Path, arguments: tuple[str, ...]) -> subprocess.Popen[bytes]:
    with (directory / "output").open("wb") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "pytest", *QUIET, *arguments],
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            # A background process of a shell ignores Ctrl-C, and so would its child processes.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )


def _killed(directory: Path, arguments: tuple[str, ...], *, brokers: int) -> list[int]:
    """Run pytest until `brokers` process ids are recorded, kill it, and return the ids."""
    run = _started(directory, arguments)
    try:
        pids = written_pids(directory, brokers)
        assert all(map(is_alive, pids))
    finally:
        run.kill()
        run.wait()
    return pids


def test_a_mistyped_setting_is_refused(pytester: pytest.Pytester) -> None:
    """With a misspelled setting the fixture fails and names the intended setting."""
    pytester.makeini("[pytest]\nkafka_settings =\n    num.partitionz=3\n")
    pytester.makepyfile("def test_it(kafka): pass")
    result = pytester.runpytest_subprocess(*QUIET)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*num.partitionz: there is no such setting, did you mean *"])
