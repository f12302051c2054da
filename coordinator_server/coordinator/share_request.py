"""ShareRequest: a ShareFetch or ShareAcknowledge on the broker that leads its share partitions.

The handler has validated and authorized the request. The stages run in this order: acknowledge,
fetch (which may wait in the purgatory), write the acknowledgements, and at the end of a share
session release the records that the member still holds. The handler gets the result once, at the
end. Source: KafkaApis.handleShareFetchRequest, SharePartitionManager.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from coordinator_server.coordinator.delayed_share_fetch import (
    DelayedShareFetch,
    Fetched,
    ShareFetchTarget,
)
from coordinator_server.core.share_partitions.in_flight import Transition
from coordinator_server.core.share_partitions.persister import SharePartitionKey
from coordinator_server.core.share_partitions.refusal import Refusal
from coordinator_server.fetch.purgatory import DelayedAnswer
from protocol.apis.share_fetch import SharePartitionData
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence

    from coordinator_server.coordinator.share_partition_manager import SharePartitionManager
    from coordinator_server.core.share_partitions.acknowledge import Acknowledgement
    from coordinator_server.core.share_partitions.session import PartitionKey, ShareSessionKey
    from coordinator_server.core.share_partitions.share_partition import SharePartition
    from coordinator_server.net.call import Call
    from coordinator_server.steps import Steps
    from protocol.apis.share_fetch import ShareFetchRequest

_NOT_HERE = Refusal(
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."
)


class AcknowledgeOutcome(NamedTuple):
    """The result of the acknowledgements of one partition."""

    error: ErrorCode
    message: str | None = None


Outcomes = dict["PartitionKey", AcknowledgeOutcome]


class Acknowledgements(NamedTuple):
    """The valid acknowledgements of a request, and the errors of all other partitions."""

    valid: Mapping[PartitionKey, Sequence[Acknowledgement]]
    errors: Outcomes


class FetchPlan(NamedTuple):
    """The partitions to fetch from, and the errors of all other partitions.

    The request waits for records until `deadline_ms` of the client's clock. With `only_waits` no
    records are fetched, and the response with the errors is sent at that deadline. With
    `reads_nothing` no share partition is looked up.
    """

    request: ShareFetchRequest
    partitions: list[PartitionKey]
    errors: Fetched
    deadline_ms: int
    only_waits: bool
    reads_nothing: bool


class ShareRequest:
    """One request of the member `key`: call `serve` once.

    `answer(fetched, outcomes)` is run after the last stage. With `is_final` the request ends the
    member's share session.
    """

    __slots__ = (
        "_acknowledged",
        "_answer",
        "_call",
        "_fetched",
        "_is_final",
        "_key",
        "_manager",
        "_outcomes",
        "_pending",
    )

    def __init__(
        self,
        manager: SharePartitionManager,
        call: Call,
        key: ShareSessionKey,
        answer: Callable[[Fetched, Outcomes], Steps],
        *,
        is_final: bool,
    ) -> None:
        self._manager = manager
        self._call = call
        self._key = key
        self._answer = answer
        self._is_final = is_final
        self._acknowledged: list[
            tuple[PartitionKey, SharePartition | None, Transition | Refusal | None]
        ] = []
        self._fetched: Fetched = {}
        self._outcomes: Outcomes = {}
        self._pending = 1

    def serve(self, acknowledgements: Acknowledgements, plan: FetchPlan | None) -> Steps:
        """Run all stages; `plan` is None if the request fetches nothing.

        As in Kafka, released records cannot be acquired by another fetch until the release is
        written.
        """
        self._outcomes = acknowledgements.errors
        yield from self._acknowledge(acknowledgements.valid)
        self._pending += len(self._acknowledged)
        if plan is None:
            self._take_fetched({})
        else:
            yield from self._fetch(plan)
        yield from self._write()

    # --- acknowledge ------------------------------------------------------------------------------

    def _acknowledge(self, valid: Mapping[PartitionKey, Sequence[Acknowledgement]]) -> Steps:
        """Apply the acknowledgements to the share partitions."""
        for key, acknowledgements in valid.items():
            share_partition = self._manager.get(SharePartitionKey(self._key.group_id, *key))
            result: Transition | Refusal | None = None
            if acknowledgements and share_partition is None:
                result = _NOT_HERE
            elif acknowledgements and share_partition is not None:
                result = yield from self._manager.acknowledge(
                    share_partition, self._key.member_id, acknowledgements
                )
            self._acknowledged.append((key, share_partition, result))
            yield

    # --- fetch ------------------------------------------------------------------------------------

    def _fetch(self, plan: FetchPlan) -> Steps:
        """Acquire records, now or when enough records are available."""
        purgatory = self._manager.purgatory
        if plan.only_waits:
            answer = partial(self._take_fetched, plan.errors)
            late = DelayedAnswer(self._call, plan.deadline_ms, answer)
            purgatory.watch(late, [late])
            return
        unread: set[PartitionKey] = set()
        targets: list[ShareFetchTarget] = []
        if plan.partitions and not plan.reads_nothing:
            targets = yield from self._look_up(plan, unread)
        if not targets:
            self._take_fetched(plan.errors)
            return
        fetch = DelayedShareFetch(
            self._manager,
            self._call,
            plan.request,
            plan.deadline_ms,
            self._manager.settings_of(self._key.group_id),
            targets,
            plan.errors,
            self._take_fetched,
        )
        changes = purgatory.changes
        if not (yield from fetch.fetch_if_enough(plan.request.max_wait_ms, unread)):
            purgatory.watch(fetch, fetch.keys())
            if purgatory.changes != changes:
                # The partition may have changed since an earlier step: check again.
                purgatory.notify(targets[0].share_partition)

    def _look_up(
        self, plan: FetchPlan, unread: set[PartitionKey]
    ) -> Generator[None, None, list[ShareFetchTarget]]:
        """Return the share partitions to fetch from; add errors of other partitions to the plan.

        The partitions are rotated, so that each gets its turn. `unread` receives the partitions
        whose state was not read before.
        """
        manager, fetched = self._manager, plan.errors
        targets: list[ShareFetchTarget] = []

        def fail(key: PartitionKey, error: ErrorCode) -> None:
            fetched[key] = SharePartitionData(partition_index=key[1], error_code=error)

        wanted = plan.partitions
        turn = plan.request.share_session_epoch % len(wanted)
        for key in wanted[turn:] + wanted[:turn]:
            topic = manager.topics.topic_by_id(key[0])
            if topic is None:
                # The topic was deleted after the request was received.
                fail(key, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                continue
            partition = topic.partitions[key[1]]
            share_partition = manager.find(SharePartitionKey(self._key.group_id, *key), partition)
            if isinstance(share_partition, ErrorCode):
                fail(key, share_partition)
            else:
                if not share_partition.is_active:
                    unread.add(key)
                manager.load(share_partition, partition, partial(fail, key))
                if key not in fetched:
                    targets.append(ShareFetchTarget(key, partition, share_partition))
            yield
        return targets

    def _take_fetched(self, fetched: Fetched) -> None:
        self._fetched = fetched
        self._end_stage()

    # --- responses --------------------------------------------------------------------------------

    def _write(self) -> Steps:
        """Write the acknowledgements to the share coordinator."""
        for key, share_partition, result in self._acknowledged:
            if share_partition is not None and isinstance(result, Transition):
                self._manager.persist(share_partition, result, partial(self._take_written, key))
            else:
                assert not isinstance(result, Transition)
                self._take_written(key, result)
            yield

    def _take_written(self, key: PartitionKey, refusal: Refusal | None) -> None:
        self._outcomes[key] = (
            AcknowledgeOutcome(ErrorCode.NONE) if refusal is None else AcknowledgeOutcome(*refusal)
        )
        self._end_stage()

    def _end_stage(self) -> None:
        """Send the response if both the fetch and all writes have ended."""
        self._pending -= 1
        if not self._pending:
            self._call.run(self._finish())

    def _finish(self) -> Steps:
        if self._is_final:
            yield from self._manager.close_session(self._key)
        yield from self._answer(self._fetched, self._outcomes)
