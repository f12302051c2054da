"""Kill the broker under load by consumer groups (KIP-848) and share groups (KIP-932).

    python -m tests.faults.group_kills --kills 1000 --seed 1

After each restart the broker knows the members with the epochs it had sent them, members own the
partitions it had assigned, no partition has two owners, and committed offsets are kept. A record
that a share group acknowledged is never delivered again, and in the end every record is
acknowledged.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Sequence

from protocol.apis.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    DescribedConsumerGroup,
)
from protocol.apis.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from protocol.errors import ErrorCode
from tests.faults.client import Client
from tests.faults.group_workers import (
    Commits,
    ConfluentConsumer,
    ConsumerMember,
    Deliveries,
    ShareMember,
)
from tests.faults.kills import KilledBroker, Load
from tests.faults.workers import PARTITIONS, Producer
from tests.support import wait_for

GROUPS, MEMBERS = 2, 3
SHARE_GROUP, SHARE_MEMBERS = "shared", 3
CLIENT_GROUP = "clients"
GROUP_RESOURCE, SET = 32, 0
DRAIN_SECONDS = 30.0


class ConsumerKills(KilledBroker):
    """Kills a broker with consumer groups; one member of each group leaves and rejoins."""

    def _make_workers(self) -> None:
        self.commits = {f"consumers-{number}": Commits() for number in range(GROUPS)}
        self.members = [
            ConsumerMember(self._where, group, number, commits, is_guest=number == 0)
            for group, commits in self.commits.items()
            for number in range(MEMBERS)
        ]

    def _workers(self) -> Sequence[Load]:
        return self.members

    def _expectation(self) -> Callable[[], None]:
        acknowledged = {name: dict(one.acknowledged) for name, one in self.commits.items()}
        known = {(one.group, one.member_id): one.known for one in self.members}

        def check() -> None:
            client = Client(self._address)
            for name, commits in self.commits.items():
                committed = self._committed(client, name)
                for partition, offset in acknowledged[name].items():
                    assert offset <= committed[partition] <= commits.sent, (name, partition)
                self._check_members(self._described(client, name), known)
            client.close()

        return check

    def _described(self, client: Client, group: str) -> DescribedConsumerGroup:
        described: DescribedConsumerGroup = client.ask(
            ConsumerGroupDescribeRequest(group_ids=[group])
        ).groups[0]
        return described

    def _check_members(
        self,
        group: DescribedConsumerGroup,
        known: dict[tuple[str, str], tuple[int, frozenset[int]]],
    ) -> None:
        """Check that each member still has the epoch and the partitions that it was told.

        A member may also have a later epoch. No partition has two owners.
        """
        if group.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
            epochs = [one[0] for (name, _), one in known.items() if name == group.group_id]
            assert not any(epochs)
            return
        assert group.error_code == ErrorCode.NONE, group
        seen: set[int] = set()
        for member in group.members:
            owned = {
                partition
                for topic in member.assignment.topic_partitions
                for partition in topic.partitions
            }
            assert not owned & seen, group
            seen |= owned
            epoch, told = known[group.group_id, member.member_id]
            if member.member_id != "member-0":
                assert member.member_epoch >= epoch, (member, epoch)
                assert member.member_epoch > epoch or told <= owned, (member, told)
        steady = {one.member_id for one in group.members}
        for (name, member_id), (epoch, _) in known.items():
            if name == group.group_id and epoch and member_id != "member-0":
                assert member_id in steady, (member_id, group)


class ClientKills(KilledBroker):
    """Kills a broker whose consumer group consists of librdkafka clients."""

    def _make_workers(self) -> None:
        self.consumers = [
            ConfluentConsumer(self._where, CLIENT_GROUP, number) for number in range(2)
        ]
        self.producers = [Producer(self._where, index) for index in range(PARTITIONS)]

    def _workers(self) -> Sequence[Load]:
        return [*self.consumers, *self.producers]

    def _expectation(self) -> Callable[[], None]:
        acknowledged: dict[int, int] = {}
        for consumer in self.consumers:
            for partition, offset in dict(consumer.committed).items():
                acknowledged[partition] = max(acknowledged.get(partition, -1), offset)

        def check() -> None:
            client = Client(self._address)
            committed = self._committed(client, CLIENT_GROUP)
            for partition, offset in acknowledged.items():
                assert committed[partition] >= offset, (partition, offset, committed)
            client.close()

        return check

    def drain(self) -> int:
        """End the producers, wait until every record is read, and return the number of records."""
        stored = self._stored(self.producers)
        wait_for(
            lambda: (
                stored <= set().union(*(set(one.read) for one in self.consumers))
                or any(one.failure for one in self.consumers)
            ),
            "every record is read",
            DRAIN_SECONDS,
        )
        for consumer in self.consumers:
            if consumer.failure is not None:
                raise consumer.failure
        return len(stored)


class ShareKills(KilledBroker):
    """Kills a broker with a share group whose members read the records of the producers."""

    def _make_workers(self) -> None:
        client = Client(self._address)
        earliest = AlterableConfig(
            name="share.auto.offset.reset", config_operation=SET, value="earliest"
        )
        resource = AlterConfigsResource(
            resource_type=GROUP_RESOURCE, resource_name=SHARE_GROUP, configs=[earliest]
        )
        answer = client.ask(IncrementalAlterConfigsRequest(resources=[resource]))
        assert answer.responses[0].error_code == ErrorCode.NONE, answer
        client.close()
        self.deliveries = Deliveries()
        self.members = [
            ShareMember(self._where, SHARE_GROUP, number, self.topic_id, self.deliveries)
            for number in range(SHARE_MEMBERS)
        ]
        self.producers = [Producer(self._where, index) for index in range(PARTITIONS)]

    def _workers(self) -> Sequence[Load]:
        return [*self.members, *self.producers]

    def _expectation(self) -> Callable[[], None]:
        return lambda: None  # nothing to check here: the members check their own deliveries

    def drain(self) -> int:
        """End the producers, wait until all records are acknowledged, and return their number."""
        stored = self._stored(self.producers)
        wait_for(
            lambda: (
                stored <= self.deliveries.acknowledged | self.deliveries.unsure
                or any(worker.failure for worker in self._workers())
            ),
            "every record is delivered",
            DRAIN_SECONDS,
        )
        for worker in self._workers():
            if worker.failure is not None:
                raise worker.failure
        return len(stored)


def main() -> int:
    """Run the command line; the first violation ends the run with a traceback."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    for kind in (ConsumerKills, ShareKills, ClientKills):
        started = time.monotonic()
        with tempfile.TemporaryDirectory() as directory:
            kills = kind(directory, options.seed)
            try:
                for _ in range(options.kills):
                    kills.kill_and_check()
                if not isinstance(kills, ConsumerKills):
                    print(f"{kills.drain()} records, each read")
            finally:
                kills.close()
        seconds = time.monotonic() - started
        print(f"{kind.__name__}: {options.kills} kills, {seconds:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
