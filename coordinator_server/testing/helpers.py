"""What a test asks of a broker without a Kafka client: topics, records, groups, a clean state.

Everything goes through the control server. Waiting is done here, by looking again and again, so it
is measured in the time of the test and not in that of the broker, whose clock may be frozen.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TypeVar

from coordinator_server.testing import groups
from coordinator_server.testing.clock import Clock
from coordinator_server.testing.control import BrokerError, Control, quoted
from coordinator_server.testing.groups import Group
from coordinator_server.testing.records import (
    Content,
    Headers,
    Record,
    TopicPartition,
    from_json,
    to_json,
)

T = TypeVar("T")

_NOT_FOUND = 404
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.002, 0.05
_RECORDS_AT_ONCE = 1000


class WaitTimeout(AssertionError):  # noqa: N818  # it is read in a test's report, as what it is
    """What a test waited for did not come; the text says what there was instead."""


class Helpers:
    """The helpers of a broker; `control` is the way to it. See `Broker`."""

    @property
    def control(self) -> Control:
        """The way to the broker's control server. Raises BrokerError when it does not run."""
        raise NotImplementedError

    def reset(self) -> None:
        """Make the broker as new: no topic, group, offset or connection is left.

        Clients that are still there are cut off. Raises BrokerError.
        """
        raise NotImplementedError

    @property
    def clock(self) -> Clock:
        """The broker's virtual clock: `advance`, `freeze`, `resume`."""
        return Clock(self.control)

    # --- topics and records -----------------------------------------------------------------------

    def create_topic(
        self,
        topic: str,
        partitions: int | None = None,
        configs: Mapping[str, object] | None = None,
    ) -> None:
        """Create a topic, with num.partitions partitions if no number is given.

        Raises BrokerError when it cannot be created, such as when it is there already.
        """
        body = {"partitions": partitions, "configs": dict(configs or {})}
        self.control.call("POST", f"/topics/{quoted(topic)}", body=body)

    def topics(self) -> dict[str, int]:
        """The topics by name with the number of their partitions, the broker's own included."""
        topics = self.control.call("GET", "/topics")["topics"]
        return {topic["topic"]: len(topic["partitions"]) for topic in topics}

    def produce(
        self,
        topic: str,
        *values: Content,
        key: Content = None,
        partition: int | None = None,
        headers: Headers = (),
        timestamp_ms: int | None = None,
    ) -> list[Record]:
        """Write one record for each value, and return them as they are in the log.

        The topic is created if need be, where auto.create.topics.enable is on. Without a partition
        the key decides, as in Kafka's clients; without a key too the values go to the partitions in
        turn, the first one to partition 0. Raises BrokerError.
        """
        pairs = tuple(headers.items()) if isinstance(headers, Mapping) else tuple(headers)
        asked = [to_json(value, key, partition, pairs, timestamp_ms) for value in values]
        written = self.control.call(
            "POST", f"/topics/{quoted(topic)}/records", body={"records": asked}
        )
        return [
            from_json(topic, answer["partition"], {**record, **answer})
            for record, answer in zip(asked, written["records"], strict=True)
        ]

    def consume(
        self,
        topic: str,
        count: int | None = 1,
        *,
        partition: int | None = None,
        offset: int = 0,
        timeout: float = 10.0,
    ) -> list[Record]:
        """The first `count` records of a topic; waits up to `timeout` seconds for them.

        No group is involved: the same records are returned the next time. `offset` is where to
        begin in each partition, `partition` leaves out the others. With None for `count` it is all
        that is there now. Records of one partition are in their order, those that are there at
        the same time partition by partition. Raises WaitTimeout, BrokerError.
        """
        __tracebackhide__ = True
        records: list[Record] = []
        positions: dict[int, int] = {}

        def look() -> list[Record] | None:
            for index, end_offset in self._end_offsets(topic, partition).items():
                at = positions.setdefault(index, offset)
                while at < end_offset and (count is None or len(records) < count):
                    most = _RECORDS_AT_ONCE if count is None else count - len(records)
                    answer = self.control.call(
                        "GET",
                        f"/partitions/{quoted(topic)}/{index}/records",
                        {"offset": at, "count": min(most, _RECORDS_AT_ONCE)},
                    )
                    records.extend(from_json(topic, index, record) for record in answer["records"])
                    if answer["next_offset"] <= at:
                        break  # what is there cannot be read yet
                    at = positions[index] = answer["next_offset"]
            return records if count is None or len(records) >= count else None

        def tell() -> str:
            end_offsets = self._end_offsets(topic, partition)
            ends = ", ".join(f"{index} ends at {end}" for index, end in end_offsets.items())
            values = "".join(f"\n  {record}" for record in records[:10])
            return (
                f"{len(records)} of {count} records came in {topic} within {timeout:g} s, "
                f"from offset {offset} on; "
                f"{f'partition {ends}' if end_offsets else 'there is no such topic'}{values}"
            )

        return _wait(look, tell, timeout)

    def _end_offsets(self, topic: str, partition: int | None) -> dict[int, int]:
        """End offsets by partition, of one or of all; none while there is no such topic."""
        try:
            partitions = self.control.call("GET", f"/topics/{quoted(topic)}")["partitions"]
        except BrokerError as error:
            if error.status == _NOT_FOUND:
                return {}
            raise
        if partition is not None and not 0 <= partition < len(partitions):
            raise BrokerError(
                f"topic {topic} has no partition {partition}, but {len(partitions)} of them"
            )
        return {
            index: entry["end_offset"]
            for index, entry in enumerate(partitions)
            if partition is None or index == partition
        }

    # --- groups -----------------------------------------------------------------------------------

    def groups(self) -> dict[str, str]:
        """The groups by name with their states."""
        listed = self.control.call("GET", "/groups")["groups"]
        return {entry["group"]: entry["state"] for entry in listed}

    def group(self, group: str) -> Group | None:
        """A group as it is now; None if there is none of this name. Raises BrokerError."""
        try:
            return groups.from_json(self.control.call("GET", f"/groups/{quoted(group)}"))
        except BrokerError as error:
            if error.status == _NOT_FOUND:
                return None
            raise

    def committed(self, group: str) -> dict[TopicPartition, int]:
        """The committed offsets of a group, by (topic, partition); none if there is no group."""
        description = self.group(group)
        return {} if description is None else description.offsets

    def wait_for_group(
        self,
        group: str,
        *,
        state: str | None = "Stable",
        members: int | None = None,
        timeout: float = 10.0,
    ) -> Group:
        """Wait until a group is in a state, with so many members; None is any.

        `timeout` is in seconds. Stable is a group whose members all have what they shall have; a
        share group is so whenever it has members, but here that is waited for as well. A group that
        does not exist counts as Dead; it is returned as one without members. Raises WaitTimeout,
        which says what the group looks like and its last rebalance, and ValueError for an unknown
        state.
        """
        __tracebackhide__ = True  # the report of a failed test ends where the test called us
        if state is not None and state not in groups.STATES:
            raise ValueError(f"{state!r} is no state of a group, but {', '.join(groups.STATES)}")
        wanted = state or "there"
        if members is not None:
            wanted += f" with {members} {'member' if members == 1 else 'members'}"

        def look() -> Group | None:
            description = self.group(group)
            if description is None:
                description = Group(group, "Dead", 0, None, None, -1, (), {}, ())
                if state != "Dead":
                    return None
            if state not in (None, description.state) or members not in (
                None,
                len(description.members),
            ):
                return None
            if state == "Stable" and not description.is_settled:
                return None
            return description

        def tell() -> str:
            description = self.group(group)
            if description is None:
                others = ", ".join(self.groups())
                looks = f"there is no such group, {f'but {others}' if others else 'nor any other'}"
            else:
                looks = f"it is {description}"
            return f"group {group!r} was not {wanted} within {timeout:g} s; {looks}"

        return _wait(look, tell, timeout)


def _wait(look: Callable[[], T | None], tell: Callable[[], str], timeout: float) -> T:
    """What `look` gives as soon as it gives anything. Raises WaitTimeout with what `tell` says."""
    __tracebackhide__ = True
    deadline = time.monotonic() + timeout
    pause = _FIRST_PAUSE_SECONDS
    while True:
        value = look()
        if value is not None:
            return value
        left = deadline - time.monotonic()
        if left <= 0:
            raise WaitTimeout(tell())
        time.sleep(min(pause, left))
        pause = min(1.5 * pause, _LONGEST_PAUSE_SECONDS)
