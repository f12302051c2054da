"""A simulated life of share partitions (KIP-932): the records that members of one share group get.

Share partitions, share coordinator and logs are the real ones, on a disk in memory. Members fetch,
acknowledge in all ways, are slow, or die; the disk fails, and the broker dies between any two of
its operations. Laws, all from the clients' view:

- A record is not acquired by two members at once; another member gets it only after the acquisition
  lock has expired.
- A record whose accept or reject was acknowledged is never delivered again.
- Each delivery has the next delivery count, up to the limit, and written counts are not forgotten.
- An acknowledgement of held records succeeds.
- No record is lost: in the end each record is done, or was delivered as often as the limit allows.
- With a dead letter queue, each record whose reject was acknowledged is in the queue, or the broker
  has reported why not; accepted records are not in the queue, unless they reached the delivery
  limit.
- A replay of the share coordinator's log gives its state, and every request gets one response.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

from coordinator_server.core.share_partitions.in_flight import GivenUpRecords
from coordinator_server.core.share_partitions.settings import DEAD_LETTER_TOPIC
from coordinator_server.core.share_partitions.share_partition import SharePartition
from protocol.errors import ErrorCode
from storage.memory_disk import Crash, MemoryDisk
from tests.harness.client import Client, SentRequest
from tests.harness.shares import Said
from tests.sim.share_broker import QUEUE, TOPIC, DurableShareBroker

E = ErrorCode
GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
LOCK_MS = 15_000
STEPS = 120
PARTITIONS = 2

Place = tuple[int, int]
"""Partition and offset."""


class Delivery(NamedTuple):
    """The holder of a record, its delivery count, the end of its lock, and the broker's life."""

    member: str
    number: int
    deadline_ms: int
    life: int


class Ask(NamedTuple):
    """A request in flight, with its acknowledgements."""

    call: SentRequest
    said: tuple[Said, ...]
    is_fetch: bool
    sent_ms: int
    """Acquisition locks last at least from this time on."""


class Reader:
    """A member with one share session and one request at a time."""

    def __init__(self, world: ShareWorld, name: str, speed: float) -> None:
        self.world = world
        self.name = name
        self.speed = speed
        self.connection = Client()
        self.epoch = 0
        self.held: dict[Place, int] = {}
        """The records that the reader holds, with their delivery counts."""
        self.asked: Ask | None = None

    def turn(self) -> None:
        """Fetch, or acknowledge some held records."""
        rng = self.world.rng
        if self.asked is not None:
            return
        if rng.random() < self.world.neglect_rate:
            self.held = {}  # this reader never acknowledges anything
        said = self.some_said() if self.epoch and rng.random() < 0.7 else ()
        if said and rng.random() < 0.6:
            self.acknowledge(said)
        else:
            self.fetch(said)

    def some_said(self) -> tuple[Said, ...]:
        """Return a range of held records of a partition, with acknowledge types.

        There is one type for all records, or one type per record.
        """
        rng = self.world.rng
        if not self.held:
            return ()
        index, first = rng.choice(sorted(self.held))
        last, longest = first, rng.choice([1, 1, 3, 10])
        while (index, last + 1) in self.held and last + 1 < first + longest:
            last += 1
        types = [self.world.some_type() for _ in range(first, last + 1)]
        return ((TOPIC, index, first, last, types if rng.random() < 0.3 else types[0]),)

    def fetch(self, said: tuple[Said, ...] = ()) -> None:
        """Send ShareFetch with piggybacked acknowledgements."""
        rng, world = self.world.rng, self.world
        world.say(f"{self.name} fetches at {self.epoch} and says {said}")
        places = [(TOPIC, index) for index in range(PARTITIONS)] if self.epoch == 0 else []
        sent_ms = world.now_ms
        call = world.broker.fetch(
            *places,
            member=self.name,
            epoch=self.epoch,
            said=said,
            client=self.connection,
            max_wait_ms=rng.choice([0, 500, 5_000]),
            max_records=rng.choice([1, 3, 10, 500]),
            batch_size=rng.choice([1, 5, 500]),
            share_acquire_mode=rng.randrange(2),
        )
        self.asked = Ask(call, said, True, sent_ms)

    def acknowledge(self, said: tuple[Said, ...]) -> None:
        """Send ShareAcknowledge, sometimes to renew locks."""
        world = self.world
        renews = world.rng.random() < world.renew_rate
        if renews:
            said = tuple((*one[:4], RENEW) for one in said)
        world.say(f"{self.name} acknowledges at {self.epoch}: {said}")
        sent_ms = world.now_ms
        call = world.broker.acknowledge(*said, member=self.name, epoch=self.epoch, renews=renews)
        self.asked = Ask(call, said, False, sent_ms)

    def die(self) -> None:
        """End this client process: its records are redelivered, and a new process replaces it."""
        world = self.world
        world.say(f"{self.name} dies")
        if self.asked is not None:
            world.nobody_knows(self.asked.said)
        self.connection.closed = True
        world.gone(self.name)
        connection = self.connection
        self.begin_anew()
        world.broker.share_partitions.disconnected(connection)

    def begin_anew(self) -> None:
        """Start over without a share session."""
        self.connection = Client()
        self.epoch = 0
        self.held = {}
        self.asked = None

    def listen(self, asked: Ask) -> None:
        """Take the response to a request."""
        world = self.world
        self.asked = None
        (response,) = asked.call.replies
        world.say(f"    {self.name} -> {in_short(response)}")
        if response.error_code:
            assert response.error_code in (
                E.SHARE_SESSION_NOT_FOUND,
                E.INVALID_SHARE_SESSION_EPOCH,
            ), E(response.error_code).name
            self.epoch = 0
            return
        self.epoch += 1
        errors = {
            one.partition_index: one.acknowledge_error_code if asked.is_fetch else one.error_code
            for topic in response.responses
            for one in topic.partitions
        }
        for one in asked.said:
            world.is_taken(self, asked.sent_ms, one, E(errors.get(one[1], 0)))
        if asked.is_fetch:
            for topic in response.responses:
                for each in topic.partitions:
                    for acquired in each.acquired_records:
                        for offset in range(acquired.first_offset, acquired.last_offset + 1):
                            place = each.partition_index, offset
                            world.delivered(self, place, acquired.delivery_count, asked.sent_ms)


class ShareWorld:
    """The world of one seed: the broker, its members, and the records that they have received."""

    def __init__(self, seed: int, trace: Callable[[str], None] | None = None) -> None:
        self.rng = rng = Random(seed)
        self.trace = trace
        self.steps = 0
        self.limit = rng.choice([2, 3, 5])
        self.configs = {
            "share.auto.offset.reset": "earliest",
            "share.delivery.count.limit": str(self.limit),
            "share.record.lock.duration.ms": str(LOCK_MS),
            "share.partition.max.record.locks": str(rng.choice([100, 2000])),
        }
        self.has_queue = seed % 2 == 0
        if self.has_queue:
            self.configs[DEAD_LETTER_TOPIC] = QUEUE
        self.rejected: set[Place] = set()
        self.accepted: set[Place] = set()
        self.not_in_queue: set[Place] = set()
        """The records that the broker reported as not written to the dead letter queue."""
        self.fault_rate = rng.choice([0.0, 0.0, 0.05, 0.15])
        self.write_failure_rate = rng.choice([0.0, 0.0, 0.1])
        self.death_rate = rng.choice([0.0, 0.02, 0.05])
        self.neglect_rate = rng.choice([0.0, 0.1])
        self.renew_rate = rng.choice([0.0, 0.15])
        self.types = rng.choice(
            [[ACCEPT], [ACCEPT] * 4 + [RELEASE] * 3 + [REJECT, GAP], [RELEASE] * 4 + [ACCEPT]]
        )
        if self.has_queue and REJECT in self.types:
            self.types += [REJECT] * 4
        self.life = 0
        """Rises when unwritten state may have been forgotten."""
        self.disk = MemoryDisk()
        self.broker = self._started()
        for index in range(PARTITIONS):
            self.broker.persister.initialize(self.broker.key(index), 1, -1, self._initialized)
        self.held: dict[Place, Delivery] = {}
        self.counts: dict[Place, tuple[int, int]] = {}
        """The last delivery count, and the life in which it was seen."""
        self.kept_counts: dict[Place, int] = {}
        """The delivery counts that are certainly written."""
        self.done: set[Place] = set()
        self.may_be_done: set[Place] = set()
        """Records acknowledged without a response."""
        self.readers = [
            Reader(self, f"m{number}", rng.choice([0.9, 0.9, 0.3]))
            for number in range(rng.randrange(1, 5))
        ]

    def _started(self, now_ms: int | None = None) -> DurableShareBroker:
        broker = DurableShareBroker(
            self.disk, self.configs, self._write_fails, now_ms, self._gave_up
        )
        broker.turn()
        return broker

    def _write_fails(self) -> bool:
        if self.rng.random() >= self.write_failure_rate:
            return False
        self.say("a write fails")
        self.life += 1
        return True

    def _gave_up(self, partition: SharePartition, records: GivenUpRecords) -> None:
        """Handle the broker's report that it gave up on records."""
        if records.queue_error is not None:
            self.say(f"not in the queue: {records}")
            offsets = range(records.first, records.last + 1)
            self.not_in_queue.update((partition.key.partition, offset) for offset in offsets)

    @staticmethod
    def _initialized(error: ErrorCode) -> None:
        assert error is E.NONE, error

    @property
    def now_ms(self) -> int:
        """The simulated time."""
        return self.broker.clock.time_ms

    def some_type(self) -> int:
        """Return an acknowledge type for a record."""
        return self.rng.choice(self.types)

    # Steps

    def step(self) -> None:
        """Let one event happen, perhaps with a fault, then check every invariant."""
        self.steps += 1
        fault = self.rng.random()
        if fault < self.fault_rate / 2:
            self.disk.crash_at(self.rng.randrange(3), torn=self.rng.random() < 0.5)
        elif fault < self.fault_rate:
            self.disk.fail_at(self.rng.randrange(2))
            self.life += 1
        try:
            self._happen()
            self._settle(100)
        except Crash:
            self._listen()  # delivers the responses from before the crash
            self._restart()
        self.disk.disarm()
        self.check()

    def _happen(self) -> None:
        chance = self.rng.random()
        if chance < 0.2:
            self._produce()
        elif chance < 0.75:
            reader = self.rng.choice(self.readers)
            self._listen()
            if self.rng.random() < self.death_rate:
                reader.die()
            elif self.rng.random() < reader.speed:
                reader.turn()
        elif chance < 0.97:
            self._settle(self.rng.choice([100, 500, 1_000, 5_000, LOCK_MS - 1, LOCK_MS]))
        elif self.fault_rate:
            self._restart()

    def _produce(self) -> None:
        index = self.rng.randrange(PARTITIONS)
        self.say(f"records for {index}")
        failed = self.broker.produced(index, self.rng.choice([1, 1, 3, 8]))
        assert failed is None or self.fault_rate, failed

    def _settle(self, elapsed_ms: int) -> None:
        """Let time pass, and let all readers take their responses."""
        self.broker.advance(elapsed_ms)
        self._listen()

    def _listen(self) -> None:
        """Let all readers take their responses, in the order of the responses."""
        answers = self.broker.answers
        for call, now_ms in answers:
            self._expire(now_ms)
            for reader in self.readers:
                if reader.asked is not None and reader.asked.call is call:
                    reader.listen(reader.asked)
        answers.clear()
        self._expire(self.now_ms)

    def _expire(self, now_ms: int) -> None:
        """Drop the expected holders of records whose acquisition lock has expired."""
        expired = [place for place, one in self.held.items() if one.deadline_ms <= now_ms]
        for place in expired:
            del self.held[place]

    def _restart(self) -> None:
        self.say("the broker dies")
        self.life += 1
        self.disk.disarm()
        self.disk.processes_died()
        for reader in self.readers:
            if reader.asked is not None:
                self.nobody_knows(reader.asked.said)
            reader.begin_anew()
        self.held.clear()
        self.broker = self._started(self.now_ms)

    # The members' view

    def delivered(self, reader: Reader, place: Place, count: int, sent_ms: int) -> None:
        """Check an acquired record: free, not done, and with the next delivery count."""
        assert place not in self.done, f"{place} comes again"
        other = self.held.get(place)
        is_free = other is None or self.said_of(other.member, place) == RELEASE
        assert is_free, f"{place} is held by {other}"
        before, life = self.counts.get(place, (0, self.life))
        if life == self.life:
            assert count == before + 1, f"delivery {count} of {place} after {before}"
        kept = self.kept_counts.get(place, 0)
        assert kept < count <= self.limit, f"delivery {count} of {place}, {kept} is written"
        self.counts[place] = count, self.life
        self.held[place] = Delivery(reader.name, count, sent_ms + LOCK_MS, self.life)
        reader.held[place] = count

    def is_taken(self, reader: Reader, sent_ms: int, said: Said, error: ErrorCode) -> None:
        """Update the expected records after the response to the acknowledgement of a range."""
        _, index, first, last, types = said
        if error is not E.NONE:
            for offset in range(first, last + 1):
                reader.held.pop((index, offset), None)
            places = [(index, offset) for offset in range(first, last + 1)]
            deliveries = [self.held.get(place) for place in places]
            is_sure = all(
                one is not None and one.member == reader.name and one.life == self.life
                for one in deliveries
            )
            assert not is_sure, f"{said} of {reader.name} is refused: {error.name}"
            if error is not E.INVALID_RECORD_STATE:
                self.nobody_knows((said,))
            return
        for offset in range(first, last + 1):
            place = index, offset
            kind = types if isinstance(types, int) else types[offset - first]
            count = reader.held.get(place, 0)
            delivery = self.held.get(place)
            if delivery is not None and delivery.member != reader.name:
                # Completed records without an acknowledgement are below the start offset and no
                # longer matter.
                is_done = self.said_of(delivery.member, place) in (GAP, ACCEPT, REJECT)
                assert is_done or kind == RELEASE, f"{place} is another's by now"
                continue
            if kind == RENEW:
                if delivery is not None:
                    self.held[place] = delivery._replace(deadline_ms=sent_ms + LOCK_MS)
                continue
            reader.held.pop(place, None)
            # The acknowledgement is late: the record may have been released.
            if delivery is None:
                self.may_be_done.add(place)
                continue
            del self.held[place]
            self.kept_counts[place] = max(self.kept_counts.get(place, 0), count)
            if kind == RELEASE:
                continue
            self.done.add(place)
            if kind == REJECT:
                self.rejected.add(place)
            elif kind == ACCEPT and count < self.limit:
                self.accepted.add(place)

    def said_of(self, name: str, place: Place) -> int | None:
        """Return the acknowledge type of a held record in the pending request, or None."""
        (asked,) = (one.asked for one in self.readers if one.name == name)
        for _, index, first, last, types in () if asked is None else asked.said:
            if index == place[0] and first <= place[1] <= last:
                return types if isinstance(types, int) else types[place[1] - first]
        return None

    def nobody_knows(self, said: tuple[Said, ...]) -> None:
        """Note that records may be done, because their acknowledgements got no response."""
        for _, index, first, last, types in said:
            for offset in range(first, last + 1):
                kind = types if isinstance(types, int) else types[offset - first]
                if kind not in (RELEASE, RENEW):
                    self.may_be_done.add((index, offset))

    def gone(self, name: str) -> None:
        """Release the held records of a reader for other readers."""
        self.held = {place: one for place, one in self.held.items() if one.member != name}
        if len(self.readers) == 1 or all(one.epoch == 0 for one in self.readers):
            self.life += 1  # the broker forgets the group with its last share session

    # Invariants

    def check(self) -> None:
        """Check that a replay of the share coordinator's log gives its state."""
        for reader in self.readers:
            assert reader.asked is None or len(reader.asked.call.replies) <= 1, "answered twice"
        if self.steps % 8 == 0:
            # Compare without the number of updates since the last snapshot. As in Kafka, this
            # number is higher after a pruned log was loaded.
            known = self.broker.led().shard.hard_state()
            made = {key: state[:-1] for key, state in self.broker.replayed().items()}
            assert made == {key: state[:-1] for key, state in known.items()}, "another state"

    def check_end(self) -> None:
        """Check that in the healed world every record is read and none is left over."""
        self.fault_rate = self.write_failure_rate = 0.0
        self.death_rate = self.neglect_rate = self.renew_rate = 0.0
        self.types = [ACCEPT]
        quiet = 0
        for _ in range(3_000):
            self.steps += 1
            before = len(self.done), len(self.held)
            for reader in self.readers:
                reader.turn()
                self._settle(100)
            self._settle(500)
            quiet = quiet + 1 if before == (len(self.done), len(self.held)) else 0
            if quiet > 4 * LOCK_MS / 500 and not self.held:
                break
        self.check()
        for index in range(PARTITIONS):
            for offset in range(self.broker.end_of(index)):
                place = index, offset
                is_over = self.counts.get(place, (0, 0))[0] >= self.limit
                is_done = place in self.done or place in self.may_be_done or is_over
                assert is_done, f"{place} is lost"

        if self.has_queue:
            letters = self.broker.dead_letters()
            missing = self.rejected - letters - self.not_in_queue
            assert not missing, f"{missing} are not in the dead letter queue"
            assert not self.accepted & letters, f"{self.accepted & letters} are dead letters"

    def say(self, text: str) -> None:
        """Print a line of the trace."""
        if self.trace is not None:
            self.trace(f"{self.steps:5} {self.now_ms % 10_000_000 / 1000:9.3f} s  {text}")


def in_short(response: Any) -> str:
    """Summarize a response by partition: errors and acquired (first, last, delivery count)."""
    if response.error_code:
        return E(response.error_code).name
    told: list[str] = []
    for topic in response.responses:
        for one in topic.partitions:
            codes = one.error_code, getattr(one, "acknowledge_error_code", 0)
            ranges = [
                (each.first_offset, each.last_offset, each.delivery_count)
                for each in getattr(one, "acquired_records", ())
            ]
            told.append(f"{one.partition_index}: {[E(code).name for code in codes]} {ranges}")
    return "; ".join(told)


def run(seed: int, steps: int = STEPS, trace: Callable[[str], None] | None = None) -> ShareWorld:
    """Play one seed and return its world. Raises AssertionError for a violated invariant."""
    world = ShareWorld(seed, trace)
    try:
        for _ in range(steps):
            world.step()
        world.check_end()
    except BaseException as error:
        command = f"python -m tests.sim --kind share --seed {seed} --steps {steps} --trace"
        error.add_note(f"seed {seed}, step {world.steps}; to see it: {command}")
        raise
    return world
