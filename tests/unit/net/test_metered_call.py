"""Requests of clients with quotas: counting, throttle times, and muting."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from coordinator_server.config.config import Config
from coordinator_server.net import metered_call
from coordinator_server.net.call import ApiBinding, Call
from coordinator_server.net.connection import Connection
from coordinator_server.net.metered_call import MeteredCall, measured
from coordinator_server.net.metering import Metering
from coordinator_server.security.principal import user
from coordinator_server.security.quotas.entities import Change
from coordinator_server.security.security import Security
from coordinator_server.steps import Steps
from protocol.apis.api_versions import ApiVersionsResponse
from protocol.apis.heartbeat import HeartbeatResponse
from protocol.codec import encoder
from protocol.registry import SPEC_BY_NAME
from protocol.schema import frozen
from storage.memory_disk import MemoryDisk
from storage.security_state import SecurityState
from tests.harness.clock import ManualClock
from tests.unit.net.fakes import FakeNetwork


class StepDispatcher:
    """Runs all steps at once."""

    def run(self, _: Call, steps: Steps) -> None:
        """Run the steps."""
        for _step in steps:
            pass


class Metered:
    """A client with quotas: user `alice`, client id `c`."""

    def __init__(self) -> None:
        disk = MemoryDisk()
        disk.mkdir("/d")
        config = Config()
        security = Security(config, SecurityState(disk, "/d"), ManualClock(), ManualClock())
        self.quotas = security.quotas
        self.clock = ManualClock()
        self.metering = Metering(security, self.clock)
        self.connection, self.transport = FakeNetwork().connect()
        self.connection.principal = user("alice")

    def limit(self, **values: float) -> None:
        """Set quotas of the user."""
        steps = self.quotas.alter(
            [Change({"user": "alice"}, list(values.items()))], {}, validate_only=False
        )
        for _ in steps:
            pass

    def call(self, name: str, version: int = 0, size: int = 104) -> MeteredCall:
        """Return the call of a new request."""
        spec = SPEC_BY_NAME[name]
        encode = encoder(spec.response_type, version)
        binding: ApiBinding[Any] = ApiBinding(spec, version, _no_request, _no_handler, encode, Call)
        caller = self.connection.caller._replace(client_id="c")
        call = MeteredCall(
            self.metering, StepDispatcher(), binding, self.connection, caller, 1, None, False
        )
        call.frame_bytes = size
        return call

    def is_muted(self) -> bool:
        """Return whether the client's requests are delayed."""
        return self.connection._muted_until is not None

    def throttle_ms(self, call: MeteredCall) -> int:
        """Send an empty response; return its throttle time."""
        sent: list[int] = []
        binding = call._binding
        encode = binding.encode

        def spy(response: Any) -> Any:
            sent.append(response.throttle_time_ms)
            return encode(response)

        binding.encode = spy
        call.reply(binding.spec.response_type())
        return sent[0]


def _no_request(*_: object) -> Any:
    raise AssertionError


def _no_handler(*_: object) -> None:
    raise AssertionError


def test_apis_are_metered_by_the_quotas_that_are_about_them() -> None:
    """Each kind of quota meters its APIs; request quotas meter all APIs of clients.

    Without quotas no API is metered.
    """
    one = Metered()

    def metered() -> set[str]:
        return {name for name, spec in SPEC_BY_NAME.items() if one.metering.meters(spec)}

    changes: list[int] = []
    one.metering.on_changed = lambda: changes.append(len(metered()))
    assert metered() == set()
    one.limit(producer_byte_rate=1)
    assert metered() == {"Produce"}
    one.limit(consumer_byte_rate=1, controller_mutation_rate=1)
    assert metered() == {
        *("Produce", "Fetch", "ShareFetch", "CreateTopics", "DeleteTopics", "CreatePartitions"),
        *("Metadata", "StreamsGroupHeartbeat"),
    }
    one.limit(request_percentage=1)
    assert set(SPEC_BY_NAME) - metered() == {"WriteTxnMarkers"}
    assert len(changes) == 3


async def test_a_producer_over_its_rate_is_told_and_muted() -> None:
    """A producer over its rate is answered at once and muted.

    The length of the frame is not added to the usage.
    """
    one = Metered()
    one.limit(producer_byte_rate=10)
    assert one.throttle_ms(one.call("Produce", 3)) == 0
    assert not one.is_muted()
    call = one.call("Produce", 3)
    assert one.throttle_ms(call) == 10_000
    assert len(one.transport.written) == 2
    assert one.is_muted()
    one.connection.connection_lost(None)


async def test_without_an_answer_the_connection_is_muted_as_well() -> None:
    """With acks=0 a producer over its quota is muted, too."""
    one = Metered()
    one.limit(producer_byte_rate=10)
    one.call("Produce", 3).reply_nothing()
    assert not one.is_muted()
    one.call("Produce", 3).reply_nothing()
    assert one.is_muted()


def test_a_throttled_response_mutes_the_connection_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A throttled response mutes the connection once, for the time in the response."""
    one = Metered()
    one.limit(producer_byte_rate=10)
    one.call("Produce", 3).reply_nothing()
    muted: list[int] = []
    monkeypatch.setattr(Connection, "mute", lambda _, throttle_ms: muted.append(throttle_ms))
    assert one.throttle_ms(one.call("Produce", 3)) == 10_000
    assert muted == [10_000]


async def test_a_fetch_over_its_rate_is_answered_with_nothing() -> None:
    """A fetch over its rate returns no records and adds no usage, so that it can be retried."""
    one = Metered()
    one.limit(consumer_byte_rate=10)
    call = one.call("Fetch", 4)
    assert call.is_metered
    assert call.most_fetched_bytes() == 100
    assert not call.must_throttle_fetch(100)
    assert one.throttle_ms(call) == 0
    call = one.call("Fetch", 4)
    assert call.must_throttle_fetch(50)
    assert one.throttle_ms(call) == 5000
    assert not one.call("Fetch", 4).must_throttle_fetch(0)


@pytest.mark.parametrize(("version", "is_strict"), [(5, False), (6, True)])
async def test_topic_changes_are_refused_where_clients_know_it(
    version: int, is_strict: bool
) -> None:
    """Newer versions refuse a mutation over its quota; older versions are only throttled."""
    one = Metered()
    one.limit(controller_mutation_rate=1)
    call = one.call("CreateTopics", version)
    assert call.may_change_partitions(13)
    assert call.may_change_partitions(1) is not is_strict
    assert one.throttle_ms(call) == (2000 if is_strict else 3000)


def test_topics_created_for_another_request_are_refused_in_silence() -> None:
    """Metadata does not create topics over the quota, and has no throttle time for this."""
    one = Metered()
    one.limit(request_percentage=1e9)
    assert one.call("Metadata", 9).may_change_partitions(10_000)
    one.limit(controller_mutation_rate=1)
    call = one.call("Metadata", 9)
    assert call.may_change_partitions(13)
    assert not call.may_change_partitions(1)
    assert one.throttle_ms(call) == 0


async def test_time_is_that_of_the_request_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time of a request excludes the pauses between steps and while it is parked."""
    time_ns = 1
    monkeypatch.setattr(metered_call, "thread_time_ns", lambda: time_ns)
    one = Metered()
    one.limit(request_percentage=1)
    recorded: list[float] = []

    def record(_: str, __: str | None, value: float, ___: int) -> int:
        recorded.append(value)
        return 700

    monkeypatch.setattr(one.metering.request, "record", record)
    monkeypatch.setattr(one.metering.request, "note", record)

    def work(steps: int) -> Steps:
        nonlocal time_ns
        for _ in range(steps):
            time_ns += 10_000_000
            yield

    def serve(_: object, call: MeteredCall, __: object) -> Steps:
        return work(2)

    call = one.call("Heartbeat", 1)
    steps = measured(serve)(None, call, None)
    assert steps is not None
    for _ in steps:
        time_ns += 990_000_000  # other requests take 990 ms
    time_ns += 990_000_000
    call.begin()
    time_ns += 10_000_000
    assert one.throttle_ms(call) == 700
    assert recorded == [pytest.approx(3.0)]
    time_ns += 20_000_000
    call.pause()
    assert recorded == [pytest.approx(3.0), pytest.approx(2.0)]
    call = one.call("Heartbeat", 1)
    assert measured(lambda *_: None)(None, call, None) is None
    call.run(work(1))
    assert one.throttle_ms(call) == 700


def test_who_is_not_known_yet_uses_no_quota(monkeypatch: pytest.MonkeyPatch) -> None:
    """ApiVersions before authentication does not use up the anonymous user's quota."""
    one = Metered()
    one.limit(request_percentage=1)
    recorded: list[str] = []

    def record(user_name: str, *_: object) -> int:
        recorded.append(user_name)
        return 0

    monkeypatch.setattr(one.metering.request, "record", record)
    monkeypatch.setattr(one.metering.request, "note", record)

    class Unknown:
        has_authenticated = False

        def gone(self) -> None:
            pass

    authenticator = one.connection._authenticator = Unknown()

    def ask() -> None:
        call = one.call("ApiVersions", 3)
        measured(lambda _, call, __: call.reply(ApiVersionsResponse()))(None, call, None)

    ask()
    before = list(recorded)
    authenticator.has_authenticated = True
    ask()
    assert (before, set(recorded)) == ([], {"alice"})


async def test_an_answer_that_others_get_too_stays_as_it_is() -> None:
    """A shared response is copied before its throttle time is set, and encoded again."""
    one = Metered()
    one.limit(request_percentage=1)
    shared = frozen(HeartbeatResponse())
    call = one.call("Heartbeat", 1)
    call._throttle_ms = 5
    call.reply(shared)
    assert shared.throttle_time_ms == 0
    assert shared.encodings == {}
    assert one.transport.written[0][8:12] == b"\0\0\0\5"
    one.connection.connection_lost(None)
    await asyncio.sleep(0)
