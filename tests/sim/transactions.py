"""Transactions in simulated time: `python -m tests.sim.transactions --seeds 0-99`.

Transaction coordinator, groups and logs are the real ones, on a disk in memory. Seeded clients
begin, write, commit offsets, end, return with old epochs (zombies), are slow, or die with the
broker between any two steps; the disk fails and time is advanced. Laws, checked after every step
and at the end:

- A read_committed reader never sees a record of an open or aborted transaction, and seen records
  stay: the last stable offset neither falls nor passes an open transaction.
- In the end a transaction is visible wholly or not at all, in all partitions and in the group's
  offsets, in agreement with the response to its client.
- A producer that was superseded cannot write.
- A restart loads the same state.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Callable
from typing import Any

from coordinator_server.core.transactions.metadata import TransactionState
from protocol.apis.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from protocol.apis.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from protocol.errors import ErrorCode
from storage.memory_disk import Crash, MemoryDisk
from tests.harness.groups import commit_request
from tests.harness.transactions import V1, V2, TransactionBroker

NAMES = ("a", "b", "c")
PARTITIONS = 3
GROUP = "g"
NO_OFFSET = -1
STEPS = 60

FENCED = (
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.TRANSACTION_ABORTABLE,
    ErrorCode.CONCURRENT_TRANSACTIONS,
)


class Transaction:
    """The records and offsets of one transaction; `commits` is None if the outcome is unknown."""

    def __init__(self) -> None:
        self.values: dict[int, list[bytes]] = {}
        self.offsets: dict[int, tuple[int, int]] = {}
        """By partition: the offset, and its position in the order of all commits."""
        self.first: dict[int, int] = {}
        """By partition: the offset of the transaction's first record."""
        self.maybe: set[bytes] = set()
        """Records whose write got no response."""
        self.is_open = True
        self.commits: bool | None = None

    def all_values(self) -> set[bytes]:
        """The values that the transaction wrote to any partition."""
        return {value for values in self.values.values() for value in values}

    def end(self, commits: bool | None) -> None:
        """Record the outcome of the transaction; None if it is unknown."""
        self.is_open = False
        self.commits = commits


class Instance:
    """One incarnation of a transactional producer."""

    def __init__(self, name: str, version: int, identity: tuple[int, int]) -> None:
        self.name = name
        self.version = version
        self.identity = identity
        self.sequences: dict[int, int] = {}
        self.transaction: Transaction | None = None
        self.must_abort = False


class World:
    """A broker, its clients, and the expected state."""

    def __init__(self, seed: int, tell: Callable[[str], None]) -> None:
        self.random = random.Random(seed)
        self.tell = tell
        self.disk = MemoryDisk()
        self.broker = self._started()
        self.current: dict[str, Instance] = {}
        self.zombies: list[Instance] = []
        self.transactions: list[Transaction] = []
        self.plain: dict[int, tuple[int, int]] = {}
        self.maybe_plain: set[int] = set()
        """Partitions with a non-transactional commit that got no response."""
        self.seen: dict[int, list[bytes | None]] = {index: [] for index in range(PARTITIONS)}
        self.has_fault = False
        """Whether the disk may fail in this step."""
        self._count = 0

    def _started(self) -> TransactionBroker:
        return TransactionBroker(self.disk, transaction_max_timeout_ms="100000")

    def number(self) -> int:
        """Return 1, 2, ...: a unique number for values and offsets, which also orders commits."""
        self._count += 1
        return self._count

    # --- events -----------------------------------------------------------------------------------

    def step(self) -> None:
        """Let one event happen, perhaps with a fault."""
        action = self.random.choice(
            [self.begin] + [self.send] * 5 + [self.commit_offsets] * 2 + [self.end] * 3
            + [self.plain_commit, self.zombie, self.careless, self.restart, self.wait]
        )  # fmt: skip
        if not self.current and self.random.random() < 0.8:
            action = self.begin
        fault = self.random.random()
        is_crash = action is not self.restart and fault < 0.08
        if is_crash:
            self.disk.crash_at(self.random.randrange(4), torn=self.random.random() < 0.5)
        elif action is not self.restart and fault < 0.14:
            self.disk.fail_at(self.random.randrange(3))
        self.has_fault = action is not self.restart and fault < 0.14
        died = False
        try:
            action()
            self.rest()
        except Crash:
            died = True
        # The fault may also have hit a callback of the event loop, whose exception is not raised
        # here.
        if died or (is_crash and not self.disk.fault_is_pending):
            self.tell("the broker dies")
            self.restart(is_clean=False)
        self.disk.disarm()

    def rest(self) -> None:
        """Let all pending work finish; failed work is retried."""
        for _ in range(3):
            self.broker.turn()
            self.broker.advance(100)
        self.broker.turn()

    def begin(self) -> None:
        """Start a new instance of a transactional id, which aborts the open transaction."""
        name = self.random.choice(NAMES)
        before = self.current.pop(name, None)
        if before is not None:
            self.zombies.append(before)
            # The old instance can no longer commit its transaction.
            if before.transaction is not None:
                before.transaction.end(self._ended_so(before.transaction))
        self.tell(f"{name} begins")
        for _ in range(3):
            answer = self.broker.init_once(name, timeout_ms=60_000)
            if answer.error_code == ErrorCode.NONE:
                version = self.random.choice((V1, V2))
                identity = answer.producer_id, answer.producer_epoch
                self.current[name] = Instance(name, version, identity)
                return
            self.rest()

    @staticmethod
    def _ended_so(transaction: Transaction) -> bool | None:
        """Return the expected outcome: aborted if still open, else as requested."""
        return False if transaction.is_open else transaction.commits

    def _any(self) -> Instance | None:
        return self.random.choice(list(self.current.values())) if self.current else None

    def send(self) -> None:
        """Send a record in the open transaction, or as the first record of a transaction."""
        instance = self._any()
        if instance is None or instance.must_abort:
            return
        if instance.transaction is not None and not instance.transaction.is_open:
            return  # the end of the transaction was requested
        partition = self.random.randrange(PARTITIONS)
        transaction = instance.transaction
        if transaction is None:
            transaction = instance.transaction = Transaction()
            self.transactions.append(transaction)
        value = b"%d" % self.number()
        self.tell(f"{instance.name} sends {value.decode()} to {partition}")
        transaction.maybe.add(value)
        try:
            error = self._produce(instance, partition, value)
        except Crash:
            instance.must_abort = True
            raise
        if error is ErrorCode.NONE:
            transaction.maybe.discard(value)
            transaction.values.setdefault(partition, []).append(value)
            end = self.broker.topics.log("t", partition).log_end_offset
            transaction.first.setdefault(partition, end - 1)
        else:
            self._refused(instance, error)

    def _produce(self, instance: Instance, partition: int, value: bytes) -> ErrorCode:
        if instance.version == V1:
            error = self.broker.add(instance.identity, partition, transactional_id=instance.name)
            if error is not ErrorCode.NONE:
                return error
        sequence = instance.sequences.get(partition, 0)
        error = self.broker.produce(
            instance.identity,
            value,
            partition,
            sequence=sequence,
            version=11 if instance.version == V1 else 12,
            transactional_id=instance.name,
        )
        if error is ErrorCode.NONE:
            instance.sequences[partition] = sequence + 1
        return error

    def _refused(self, instance: Instance, error: ErrorCode) -> None:
        """Abort the transaction after an error; a fenced client ends."""
        instance.must_abort = True
        if error in (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED):
            if instance.transaction is not None and instance.transaction.is_open:
                instance.transaction.end(False)
            self.current.pop(instance.name, None)
            self.zombies.append(instance)

    def commit_offsets(self) -> None:
        """Commit an offset of the group in the open transaction."""
        instance = self._any()
        if instance is None or instance.must_abort or instance.transaction is None:
            return
        if not instance.transaction.is_open:
            return
        partition, offset = self.random.randrange(2), self.number()
        self.tell(f"{instance.name} commits {offset} of {partition}")
        if instance.version == V1:
            error = self.broker.add_offsets(instance.identity, GROUP, instance.name)
            if error is not ErrorCode.NONE:
                self._refused(instance, error)
                return
        instance.must_abort = True  # stays set until a response arrives
        request = TxnOffsetCommitRequest(
            transactional_id=instance.name,
            group_id=GROUP,
            producer_id=instance.identity[0],
            producer_epoch=instance.identity[1],
            topics=[
                TxnOffsetCommitRequestTopic(
                    name="t",
                    partitions=[
                        TxnOffsetCommitRequestPartition(
                            partition_index=partition, committed_offset=offset
                        )
                    ],
                )
            ],
        )
        call = self.broker.send(request, 3 if instance.version == V1 else 5)
        self.broker.turn()
        if not call.replies:
            raise Crash
        error = ErrorCode(call.replies[0].topics[0].partitions[0].error_code)
        if error is ErrorCode.NONE:
            instance.must_abort = False
            instance.transaction.offsets[partition] = offset, offset
        else:
            self._refused(instance, error)

    def careless(self) -> None:
        """Send as a transactions v1 producer that omits AddPartitionsToTxn for its first record."""
        instance = self._any()
        if instance is None or instance.version != V1 or instance.transaction is not None:
            return
        self.tell(f"{instance.name} is careless")
        error = self.broker.produce(
            instance.identity, b"careless", transactional_id=instance.name, version=11
        )
        assert error is not ErrorCode.NONE, "a record was taken that belongs to no transaction"

    def plain_commit(self) -> None:
        """Commit an offset of the group outside of any transaction."""
        partition, offset = self.random.randrange(2), self.number()
        self.tell(f"{offset} of {partition} is committed")
        call = self.broker.send(commit_request(GROUP, offset, partition))
        self.broker.turn()
        if not call.replies:
            self.maybe_plain.add(partition)
            raise Crash
        if call.replies[0].topics[0].partitions[0].error_code == ErrorCode.NONE:
            self.plain[partition] = offset, offset

    def end(self) -> None:
        """Commit or abort the transaction."""
        instance = self._any()
        if instance is None or instance.transaction is None:
            return
        transaction = instance.transaction
        # If the response to a commit was lost, the client can only repeat the commit.
        commits = not transaction.is_open or (
            not instance.must_abort and self.random.random() < 0.7
        )
        self.tell(f"{instance.name} {'commits' if commits else 'aborts'}")
        is_retry = not transaction.is_open
        # From now on, an abort is final, and the outcome of a commit is unknown.
        transaction.end(None if commits else False)
        answer = self.broker.end(
            instance.identity,
            commits=commits,
            version=instance.version,
            transactional_id=instance.name,
        )
        if answer is None:  # no response: the outcome is decided, but a marker is missing
            self.current.pop(instance.name)
            self.zombies.append(instance)
            transaction.end(commits)
            return
        error = ErrorCode(answer.error_code)
        if error is ErrorCode.NONE:
            transaction.end(commits)
            instance.transaction, instance.must_abort = None, False
            if instance.version == V2:
                instance.identity = answer.producer_id, answer.producer_epoch
                instance.sequences.clear()
        elif error in FENCED:
            # The transaction was already aborted, or had no partitions.
            transaction.end(None if is_retry else False)
            self.current.pop(instance.name)
            self.zombies.append(instance)

    def zombie(self) -> None:
        """Let a superseded producer try to continue."""
        old = [one for one in self.zombies if one.name in self.current]
        if not old:
            return
        instance = self.random.choice(old)
        if instance.identity == self.current[instance.name].identity:
            return
        self.tell(f"a zombie of {instance.name} tries")
        error = self.broker.add(instance.identity, 0, transactional_id=instance.name)
        assert error is not ErrorCode.NONE, "a zombie has added a partition"
        error = self._produce(instance, 0, b"zombie")
        assert error is not ErrorCode.NONE, "a zombie has written"
        ended = self.broker.end(
            instance.identity,
            commits=True,
            version=instance.version,
            transactional_id=instance.name,
        )
        is_retry = instance.transaction is not None and instance.transaction.commits is not False
        # As in Kafka, EndTxn 5 with the previous epoch counts as a repetition, also if
        # InitProducerId has raised the epoch. It changes nothing.
        producer_id, epoch = self.current[instance.name].identity
        is_previous = instance.version == V2 and instance.identity == (producer_id, epoch - 1)
        if ended is not None and not is_retry and not is_previous:
            assert ended.error_code != ErrorCode.NONE, "a zombie has committed"

    def wait(self) -> None:
        """Advance the time: transactions that are open for too long are aborted."""
        self.tell("time passes")
        outcome: bool | None = None  # stays None if the broker dies
        try:
            self.broker.advance(75_000)
            self.rest()
            outcome = False
            if not self.has_fault:
                states = [entry.metadata.state for entry in self.broker.transactions.ids.values()]
                assert TransactionState.ONGOING not in states, "open for too long"
        finally:
            for transaction in self.transactions:
                if transaction.is_open:
                    transaction.end(outcome)

    def restart(self, *, is_clean: bool = True) -> None:
        """Kill and restart the broker; it must load the state that it had."""
        self.tell("the broker is killed")
        before = self._state() if is_clean else None
        for instance in self.current.values():
            if instance.transaction is not None and not is_clean:
                instance.must_abort = True  # a response may be lost, so the client must abort
        self.disk.processes_died()
        now_ms = self.broker.clock.time_ms
        self.broker = self._started()
        self.broker.turn()
        if before is not None:
            after = self._state()
            assert after == before, f"another state was loaded: {before} {after}"
        self.broker.clock.time_ms = now_ms
        self.rest()

    def _state(self) -> tuple[Any, Any]:
        ids = {
            name: entry.metadata._replace(last_producer_epoch=-1)
            for name, entry in self.broker.transactions.ids.items()
        }
        task = self.broker.groups.tasks.get(GROUP)
        # Leave out a group without offsets, for example after an abort: it is not in the log.
        return ids, task.group.offsets if task is not None and task.group.offsets else None

    # --- invariants -------------------------------------------------------------------------------

    def check(self) -> None:
        """Check the invariants after a step."""
        hidden: set[bytes] = set()
        for transaction in self.transactions:
            if transaction.is_open or transaction.commits is False:
                hidden |= transaction.all_values() | transaction.maybe
        for index in range(PARTITIONS):
            log = self.broker.topics.log("t", index)
            seen = self.broker.committed_values(index)
            before = self.seen[index]
            assert seen[: len(before)] == before, f"partition {index}: what was seen has gone"
            self.seen[index] = seen
            wrong = hidden.intersection(value for value in seen if value is not None)
            assert not wrong, f"partition {index}: {wrong} can be seen"
            for transaction in self.transactions:
                if transaction.is_open and index in transaction.first:
                    assert log.last_stable_offset <= transaction.first[index]

    def check_end(self) -> None:
        """End all transactions with new producers; each must be visible wholly or not at all."""
        for name in NAMES:
            self.current.pop(name, None)
            for _ in range(4):
                if self.broker.init_once(name, timeout_ms=60_000).error_code == ErrorCode.NONE:
                    break
                self.rest()
        for transaction in self.transactions:
            if transaction.is_open:
                transaction.end(False)
        self.check()
        visible = {value for seen in self.seen.values() for value in seen}
        for index in range(PARTITIONS):
            log = self.broker.topics.log("t", index)
            assert not log.producers.transactions, "a transaction hangs"
        committed = dict(self.plain)
        for transaction in self.transactions:
            values = transaction.all_values()
            is_there = values <= visible if values else None
            if values & visible:
                assert is_there, f"half of it: {values & visible} of {values}"
            if transaction.commits:
                assert is_there is not False, f"{values} are committed and not there"
            if transaction.commits or (transaction.commits is None and is_there):
                for partition, offset in transaction.offsets.items():
                    committed[partition] = max(committed.get(partition, offset), offset)
            elif transaction.commits is None and is_there is None and transaction.offsets:
                return  # the outcome is unknown
        stored = self._offsets()
        for partition in range(PARTITIONS):
            if partition not in self.maybe_plain:
                wanted = committed.get(partition, (None, 0))[0]
                assert stored.get(partition) == wanted, f"another offset of partition {partition}"

    def _offsets(self) -> dict[int, int]:
        topics = [OffsetFetchRequestTopics(name="t", partition_indexes=list(range(PARTITIONS)))]
        request = OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group_id=GROUP, topics=topics)], require_stable=True
        )
        answer = self.broker.ask(request, 8)
        partitions = answer.groups[0].topics[0].partitions
        assert not any(one.error_code for one in partitions), "an offset is unstable for good"
        return {
            one.partition_index: one.committed_offset
            for one in partitions
            if one.committed_offset != NO_OFFSET
        }


def run(seed: int, steps: int = STEPS, tell: Callable[[str], None] = lambda _: None) -> None:
    """Play one seed. Raises AssertionError when an invariant is violated."""
    world = World(seed, tell)
    step = 0
    try:
        world.rest()
        while step < steps:
            step += 1
            world.step()
            world.check()
        world.check_end()
    except Exception as error:
        error.add_note(
            f"seed {seed}, step {step}; to see it: "
            f"python -m tests.sim.transactions --seeds {seed}-{seed} --steps {steps} --trace"
        )
        raise


def main() -> None:
    """Play the requested seeds."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim.transactions")
    parser.add_argument("--seeds", default="0-99")
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--trace", action="store_true")
    arguments = parser.parse_args()
    first, _, last = arguments.seeds.partition("-")
    for seed in range(int(first), int(last or first) + 1):
        run(seed, arguments.steps, print if arguments.trace else lambda _: None)
    print(f"seeds {arguments.seeds}: all is well", file=sys.stderr)


if __name__ == "__main__":
    main()
