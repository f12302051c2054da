"""Helpers that control and query a broker without a Kafka client: topics, records, groups, reset.

All helpers use the control server. Waiting is done here by polling, so timeouts are measured by the
test's clock and not by the broker's, which may be frozen.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from coordinator_server.testing import groups
from coordinator_server.testing.clock import Clock
from coordinator_server.testing.control import BrokerError, Control, quoted
from coordinator_server.testing.faults import Faults
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


class WaitTimeout(AssertionError):  # noqa: N818  # test reports show the name
    """A wait timed out; the message describes the state at the timeout."""


class Helpers:
    """The helpers of a broker; `control` is the client of its control server. See `Broker`."""

    @property
    def control(self) -> Control:
        """The client of the broker's control server.

        Raises BrokerError if the broker does not run.
        """
        raise NotImplementedError

    def reset(self) -> None:
        """Reset the broker: delete all topics, groups and offsets, and close all connections.

        Raises BrokerError.
        """
        raise NotImplementedError

    @property
    def clock(self) -> Clock:
        """The broker's virtual clock: `advance`, `freeze`, `resume`."""
        return Clock(self.control)

    @property
    def faults(self) -> Faults:
        """Faults on demand: rules for errors, delays and dropped connections."""
        return Faults(self.control)

    # --- topics and records -----------------------------------------------------------------------

    def create_topic(
        self,
        topic: str,
        partitions: int | None = None,
        configs: Mapping[str, object] | None = None,
    ) -> None:
        """Create a topic, with num.partitions partitions if no number is given.

        Raises BrokerError if the topic cannot be created, for example because it already exists.
        """
        body = {"partitions": partitions, "configs": dict(configs or {})}
        self.control.call("POST", f"/topics/{quoted(topic)}", body=body)

    def topics(self) -> dict[str, int]:
        """Return the partition count of each topic, including internal topics."""
        topics = self._all_pages("/topics", "topics")
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
        """Write one record for each value and return the records as they are in the log.

        A missing topic is created if auto.create.topics.enable is on. Without `partition`, the key
        selects the partition, as in Kafka's clients. Without a key, the values go to the partitions
        in turn, starting at partition 0. Raises BrokerError.
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
        """Return the first `count` records of a topic; wait for them up to `timeout` seconds.

        No group is involved: the next call returns the same records. `offset` is the start in each
        partition; `partition` limits the call to one partition. If `count` is None, all current
        records are returned. Records of one partition are in order, records that exist at the same
        time are sorted by partition. Raises WaitTimeout, BrokerError.
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
                        break  # the existing records cannot be read yet
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
        """Return end offsets by partition; empty if the topic does not exist."""
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
        """Return the state of each group, by group id."""
        return {entry["group"]: entry["state"] for entry in self._all_pages("/groups", "groups")}

    def _all_pages(self, path: str, name: str) -> list[dict[str, Any]]:
        """Return the entries of all pages of a list."""
        entries: list[dict[str, Any]] = []
        after: str | None = None
        while True:
            page = self.control.call("GET", path, {"after": after})
            entries += page[name]
            after = page["next"]
            if after is None:
                return entries

    def group(self, group: str) -> Group | None:
        """Return the current state of a group, or None if it does not exist. Raises BrokerError."""
        try:
            return groups.from_json(self.control.call("GET", f"/groups/{quoted(group)}"))
        except BrokerError as error:
            if error.status == _NOT_FOUND:
                return None
            raise

    def committed(self, group: str) -> dict[TopicPartition, int]:
        """Return the group's committed offsets by (topic, partition); empty without a group."""
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
        """Wait until a group has this state and this number of members; None accepts any.

        `timeout` is in seconds. "Stable" means that all members have their target assignment. A
        share group is Stable whenever it has members, but this method waits for the assignment as
        well. A missing group counts as Dead and is returned as a group without members. Raises
        WaitTimeout with the group's state and last rebalance, and ValueError for an unknown state.
        """
        __tracebackhide__ = True  # show the caller's line in the report of a failed test
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
    """Call `look` until it returns a value, and return that value.

    Raises WaitTimeout with the text of `tell`.
    """
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
