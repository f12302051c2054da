"""Members of share groups and streams groups that only send heartbeats."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any
from uuid import uuid4

from coordinator_server.client import Client, ClientSettings, check
from protocol.apis.share_group_heartbeat import ShareGroupHeartbeatRequest
from protocol.apis.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsSubtopology,
    StreamsTopicInfo,
    StreamsTopology,
)
from protocol.schema import Message

INTERVAL_S = 0.5
LEAVE = -1


class Member:
    """A group member that receives its assignment at construction and heartbeats until `close`.

    `heartbeat` makes a request from a member id and an epoch.
    """

    def __init__(
        self,
        bootstrap: str,
        group: str,
        heartbeat: Callable[[str, int], Message],
        is_assigned: Callable[[Any], bool],
    ) -> None:
        self._client = Client(bootstrap, ClientSettings(client_id="client"))
        self._group = group
        self._heartbeat = heartbeat
        self._id = str(uuid4())
        self._epoch = 0
        self._is_closed = threading.Event()
        while not is_assigned(self._beat()):
            self._is_closed.wait(0.05)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Leave the group."""
        self._is_closed.set()
        self._thread.join()
        self._epoch = LEAVE
        self._beat()
        self._client.close()

    def _run(self) -> None:
        while not self._is_closed.wait(INTERVAL_S):
            self._beat()

    def _beat(self) -> Any:
        def attempt() -> Any:
            answer = self._client.ask(
                self._heartbeat(self._id, self._epoch), self._client.coordinator(self._group)
            )
            check(answer.error_code, answer.error_message)
            return answer

        answer = self._client.call("heartbeat", attempt)
        self._epoch = answer.member_epoch
        return answer


def share_member(bootstrap: str, group: str, *topics: str) -> Member:
    """Join a share group and return the member once it has partitions."""

    def heartbeat(member_id: str, epoch: int) -> Message:
        return ShareGroupHeartbeatRequest(
            group_id=group,
            member_id=member_id,
            member_epoch=epoch,
            subscribed_topic_names=list(topics) if epoch == 0 else None,
        )

    return Member(
        bootstrap,
        group,
        heartbeat,
        lambda answer: answer.assignment is not None and bool(answer.assignment.topic_partitions),
    )


def streams_member(bootstrap: str, group: str, *topics: str) -> Member:
    """Join a streams group that counts words of topics, and return the member once it has tasks."""

    def internal(name: str) -> StreamsTopicInfo:
        return StreamsTopicInfo(name=f"{group}-{name}", partitions=0, replication_factor=1)

    topology = StreamsTopology(
        epoch=0,
        subtopologies=[
            StreamsSubtopology(
                subtopology_id="0",
                source_topics=list(topics),
                repartition_sink_topics=[f"{group}-words-repartition"],
            ),
            StreamsSubtopology(
                subtopology_id="1",
                repartition_source_topics=[
                    StreamsTopicInfo(
                        name=f"{group}-words-repartition", partitions=1, replication_factor=1
                    )
                ],
                state_changelog_topics=[internal("counts-changelog"), internal("odd")],
            ),
        ],
    )

    def heartbeat(member_id: str, epoch: int) -> Message:
        is_first = epoch == 0
        return StreamsGroupHeartbeatRequest(
            group_id=group,
            member_id=member_id,
            member_epoch=epoch,
            endpoint_information_epoch=0,
            rebalance_timeout_ms=60_000 if is_first else -1,
            topology=topology if is_first else None,
            process_id="process" if is_first else None,
            active_tasks=[] if is_first else None,
            standby_tasks=[] if is_first else None,
            warmup_tasks=[] if is_first else None,
        )

    return Member(bootstrap, group, heartbeat, lambda answer: bool(answer.active_tasks))


MEMBERS = {"share-member": share_member, "streams-member": streams_member}
"""Commands of the cases that let a member join; the command `leave` lets all of them leave."""
