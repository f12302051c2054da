"""A broker with one group, a clock that stands still and a log in memory.

It does what the handlers and the group task do, without a loop: ask `admission`, find or make the
group, call the heart, drain, release the answers. Unit tests and the simulation drive it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from coordinator_server.group import admission
from coordinator_server.group.classic.explain import Rebalance
from coordinator_server.group.classic.metadata import GroupMetadata
from coordinator_server.group.classic.state import EMPTY, STABLE, GroupState
from coordinator_server.group.driver import drain
from coordinator_server.group.effects import Caller, Effects
from coordinator_server.group.image import GroupImage
from coordinator_server.group.offset_fetch import fetch_groups, fetch_response
from coordinator_server.group.records import Record, encode_record
from coordinator_server.group.responses import (
    HEARTBEAT,
    commit_error,
    fetch_error,
    join_error,
    leave_error,
    offset_delete_error,
    sync_error,
)
from coordinator_server.group.settings import GroupSettings
from protocol.apis.heartbeat import HeartbeatRequest
from protocol.apis.join_group import JoinGroupRequest
from protocol.apis.leave_group import LeaveGroupRequest
from protocol.apis.offset_commit import OffsetCommitRequest
from protocol.apis.offset_delete import OffsetDeleteRequest
from protocol.apis.offset_fetch import OffsetFetchRequest
from protocol.apis.sync_group import SyncGroupRequest
from protocol.errors import ErrorCode
from protocol.offsets_log import GroupMetadataValue, UnknownKey, decode_key, decode_value
from protocol.schema import Message

GROUP = "g"
TOPICS = {"one": 1, "three": 3, "many": 100}


class KilledError(Exception):
    """The process dies after an append: what of it is in the log stays, no answer went out."""


class Answer:
    """Where the answer to one request arrives; a second answer is a failure.

    `on_answer` is called when it comes; `note` is whatever the watcher wants to remember.
    """

    def __init__(self, request: object, on_answer: Callable[[Answer], None] | None = None) -> None:
        self.request = request
        self.note: Any = None
        self.response: Any = None
        self.lost = False
        self.on_answer = on_answer

    def __call__(self, response: Message) -> None:
        assert self.response is None, f"answered twice: {self.request!r} {response!r}"
        assert not self.lost, f"answered after the crash: {self.request!r}"
        self.response = response
        if self.on_answer is not None:
            self.on_answer(self)

    @property
    def parked(self) -> bool:
        """Whether the request still waits."""
        return self.response is None and not self.lost

    @property
    def error(self) -> ErrorCode:
        """The top-level error of the answer."""
        return ErrorCode(self.response.error_code)


class WatchedGroup(GroupMetadata):
    """A group that says when it moves from state to state."""

    watcher: Watcher

    def transition_to(self, state: GroupState, now_ms: int) -> None:
        """Move, and tell."""
        source = self.state
        super().transition_to(state, now_ms)
        self.watcher.moved(self, source, state)


class Watcher:
    """Is told what happens inside a drain, step by step; this one does not care."""

    def asked(self, answer: Answer, caller: Caller) -> None:
        """A request is about to be handled."""

    def refused(self, answer: Answer, response: Message) -> None:
        """It was answered without the group."""

    def handled(self, answer: Answer) -> None:
        """The group has taken it; the writes of the drain are not settled yet."""

    def timers_ran(self) -> None:
        """Delayed operations whose time has come have run."""

    def appended(self, records: Sequence[Record], error: ErrorCode) -> None:
        """The log has taken the records, or refused them."""

    def settled(self) -> None:
        """All writes of a drain are settled; its answers are about to go out."""

    def moved(self, group: GroupMetadata, source: GroupState, target: GroupState) -> None:
        """The group is in another state."""

    def loading(self, group: GroupMetadata) -> None:
        """The log has been read; the group is about to take up what it says."""

    def loaded(self) -> None:
        """It has."""


class OneGroupBroker:
    """One group, driven by hand. Time in milliseconds; `log` holds the bytes of all records."""

    def __init__(self, settings: GroupSettings | None = None) -> None:
        self.settings = settings or GroupSettings(initial_rebalance_delay_ms=0, max_size=4)
        self.now_ms = 1_000_000
        self.log: list[tuple[bytes, bytes | None]] = []
        self.batches: list[int] = []
        self.group: GroupMetadata | None = None
        self.effects = Effects(debug=True)
        self.events: list[tuple[str, dict[str, object]]] = []
        self.explained: list[Rebalance] = []
        self.append_error: Callable[[], ErrorCode] = lambda: ErrorCode.NONE
        self.survivors: Callable[[int], int | None] = lambda count: None
        """How many records of a batch are in the log after a crash that comes with the append."""
        self.batch_limit: int | None = None
        """How many records a batch may have; more are MESSAGE_TOO_LARGE."""
        self.refuses: ErrorCode | None = None
        """What everybody is answered while another broker coordinates the group."""
        self.watcher = Watcher()
        self.on_answer: Callable[[Answer], None] | None = None
        self.write_failed = False
        self.answers: list[Answer] = []
        self._ids = 0
        self._batching = False

    # Requests

    def send(
        self,
        request: Message,
        api_version: int,
        client_id: str | None = "client",
        client_host: str = "/127.0.0.1",
    ) -> Answer:
        """Handle a request as its handler would."""
        answer = Answer(request, self.on_answer)
        self.deliver(answer, Caller(client_id, client_host, api_version))
        return answer

    def deliver(self, answer: Answer, caller: Caller) -> None:
        """Handle a request that has been on its way."""
        request: Any = answer.request
        self.answers.append(answer)
        if self.refuses is not None:
            answer(refusal_of(request, self.refuses, caller.api_version))
            return
        self.watcher.asked(answer, caller)
        refusal = self._without_group(request, caller.api_version)
        if refusal is not None:
            self.watcher.refused(answer, refusal)
            answer(refusal)
            return
        self._post(request, caller, answer)
        self.watcher.handled(answer)
        self.settle()

    def _without_group(self, request: Any, api_version: int) -> Message | None:
        """The answer that needs no group, or that a missing group gets."""
        missing = self.group is None
        match request:
            case JoinGroupRequest():
                refused = admission.refuse_join(request, api_version, self.settings)
                if refused is None and missing and not admission.creates_group(request):
                    return admission.join_unknown(request, api_version)
                return refused
            case SyncGroupRequest():
                refused_sync = admission.refuse_sync(request, api_version)
                return refused_sync or (admission.sync_unknown() if missing else None)
            case HeartbeatRequest():
                refused_heartbeat = admission.refuse_heartbeat(request)
                return refused_heartbeat or (admission.heartbeat_unknown() if missing else None)
            case LeaveGroupRequest():
                refused_leave = admission.refuse_leave(request)
                unknown = admission.leave_unknown(request, api_version) if missing else None
                return refused_leave or unknown
            case OffsetCommitRequest():
                if missing and not admission.creates_group(request):
                    return admission.commit_unknown(request, api_version, partition_count)
            case OffsetDeleteRequest():
                refused_delete = admission.refuse_offset_delete(request)
                unknown_delete = admission.offset_delete_unknown() if missing else None
                return refused_delete or unknown_delete
            case OffsetFetchRequest():
                if missing:
                    groups = [
                        admission.fetch_unknown(one) for one in fetch_groups(request, api_version)
                    ]
                    return fetch_response(request, groups, api_version)
        return None

    def _post(self, request: Any, caller: Caller, answer: Answer) -> None:
        if self.group is None:
            self.group = self._new_group()
        group, now_ms, effects = self.group, self.now_ms, self.effects
        match request:
            case JoinGroupRequest():
                group.join(request, caller, answer, now_ms, effects)
            case SyncGroupRequest():
                group.sync(request, caller, answer, now_ms, effects)
            case HeartbeatRequest():
                group.heartbeat(request, caller, answer, now_ms, effects)
            case LeaveGroupRequest():
                group.leave(request, caller, answer, now_ms, effects)
            case OffsetCommitRequest():
                group.commit(request, caller, answer, partition_count, now_ms, effects)
            case OffsetDeleteRequest():
                group.offset_delete(request, caller, answer, partition_count, now_ms, effects)
            case OffsetFetchRequest():
                (wanted,) = fetch_groups(request, caller.api_version)
                version = caller.api_version

                def reply(result: Any) -> None:
                    answer(fetch_response(request, [result], version))

                group.fetch(wanted, caller, reply, now_ms, effects)

    def describe(self, api_version: int = 5) -> Any:
        """The DescribedGroup."""
        answer = Answer("describe")
        if self.group is None:
            return admission.describe_unknown(GROUP, api_version)
        self.group.describe(answer, self.now_ms, self.effects)
        self.settle()
        return answer.response

    def delete(self) -> Answer:
        """DeleteGroups of the one group."""
        answer = Answer("delete", self.on_answer)
        self.answers.append(answer)
        if self.group is None:
            answer(admission.delete_unknown(GROUP))
        else:
            self.group.delete(answer, self.now_ms, self.effects)
            self.settle()
        return answer

    def expire_offsets(self) -> None:
        """One run of the retention check."""
        if self.group is not None:
            self.group.expire_offsets(self.now_ms, self.effects)
            self.settle()

    def delete_topics(self, *topics: str) -> None:
        """Topics are gone."""
        if self.group is not None:
            self.group.topics_deleted(topics, self.now_ms, self.effects)
            self.settle()

    # Time, drains, crashes

    @contextmanager
    def one_drain(self) -> Iterator[None]:
        """Let several requests lie in the mailbox when the task wakes up."""
        self._batching = True
        try:
            yield
        finally:
            self._batching = False
        self.settle()

    def settle(self) -> None:
        """What the group task does at the end of a drain."""
        group = self.group
        if self._batching or group is None:
            return
        drain(group, self.effects, self._append, self.now_ms)
        self.watcher.settled()
        for reply, response in self.effects.replies:
            reply(response)
        self.events += self.effects.events
        self.explained += self.effects.explained
        self.effects.clear()
        if group.is_vacant:
            self.group = None

    def advance(self, milliseconds: int) -> None:
        """Let time pass, from deadline to deadline."""
        end_ms = self.now_ms + milliseconds
        while self.group is not None:
            deadline_ms = self.group.next_deadline_ms()
            if deadline_ms is None or deadline_ms > end_ms:
                break
            self.now_ms = max(self.now_ms, deadline_ms)
            self.group.expire_timers(self.now_ms, self.effects)
            self.watcher.timers_ran()
            self.settle()
        self.now_ms = end_ms

    def crash(self) -> None:
        """Kill and restart: what is parked is lost, the group comes back from its log."""
        for answer in self.answers:
            answer.lost = answer.lost or answer.parked
        self.effects = Effects(debug=True)
        self.load()

    def load(self) -> None:
        """Bring the group back from its log, after a crash or on the broker that takes over."""
        self.write_failed = False
        self.refuses = None
        group = self.replayed()
        self.group = None
        if not group.image.is_blank:
            self.group = group
            self.watcher.loading(group)
            group.load_finished(self.now_ms, self.effects)
            self.watcher.loaded()
            self.settle()

    def unload(self, error: ErrorCode = ErrorCode.NOT_COORDINATOR) -> None:
        """The partition moves away."""
        if self.group is not None:
            self.group.unload(error, self.now_ms, self.effects)
            self.settle()

    # The log

    def _append(self, records: Sequence[Record]) -> ErrorCode:
        error = self.append_error()
        if self.batch_limit is not None and len(records) > self.batch_limit:
            error = ErrorCode.MESSAGE_TOO_LARGE
        if error is ErrorCode.NONE:
            encoded = [encode_record(record) for record in records]
            survivors = self.survivors(len(encoded))
            self.log += encoded if survivors is None else encoded[:survivors]
            if survivors is not None:
                raise KilledError
            self.batches.append(len(records))
        else:
            self.write_failed = True
        self.watcher.appended(records, error)
        return error

    def records(self) -> Iterator[Record]:
        """The log, decoded."""
        for key_bytes, value_bytes in self.log:
            key = decode_key(key_bytes)
            assert not isinstance(key, UnknownKey)
            yield key, decode_value(key, value_bytes)

    def replayed(self) -> GroupMetadata:
        """A group made from the log alone."""
        group = self._new_group()
        for record in self.records():
            group.replay(record)
        return group

    def check_replay_law(self) -> None:
        """Replaying the log gives the hard state; at rest the soft state agrees with it."""
        image = self.replayed().image
        if self.group is None:
            return
        assert image == self.group.image, f"{image.group} {self.group.image.group}"
        state = self.group.state
        at_rest = state is STABLE or (state is EMPTY and self.group.generation_id > 0)
        if at_rest and not self.write_failed:
            _, recorded = self.group.record()
            expected = image.group
            assert isinstance(recorded, GroupMetadataValue)
            assert expected is not None
            if state is STABLE:
                recorded.current_state_timestamp = expected.current_state_timestamp
            assert recorded == expected, f"{recorded} {expected}"

    @property
    def image(self) -> GroupImage:
        """The hard state."""
        assert self.group is not None
        return self.group.image

    def event_names(self) -> list[str]:
        """Names of all events so far."""
        return [name for name, _ in self.events]

    def _new_group(self) -> GroupMetadata:
        group = WatchedGroup(GROUP, self.settings, self._new_member_id)
        group.watcher = self.watcher
        return group

    def _new_member_id(self, prefix: str) -> str:
        self._ids += 1
        return f"{prefix}-{self._ids}"


def refusal_of(request: Message, error: ErrorCode, api_version: int) -> Message:
    """What the handlers answer when this broker does not coordinate the group."""
    match request:
        case JoinGroupRequest():
            return join_error(request.member_id, error, api_version)
        case SyncGroupRequest():
            return sync_error(error)
        case LeaveGroupRequest():
            return leave_error(error)
        case OffsetCommitRequest():
            return commit_error(request, error)
        case OffsetDeleteRequest():
            return offset_delete_error(error)
        case OffsetFetchRequest():
            groups = [fetch_error(GROUP, error)]
            return fetch_response(request, groups, api_version)
    return HEARTBEAT[error]


def partition_count(topic: str) -> int:
    """Partitions of the topics that exist."""
    return TOPICS.get(topic, 0)
