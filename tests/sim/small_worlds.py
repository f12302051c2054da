"""Small worlds, explored completely: two or three members, every order of events up to a depth.

The random simulation plays long sequences; small worlds play all short sequences. States that
differ only in names, absolute times or the absolute generation count as one state and are explored
once. The command is `python -m tests.sim.small_worlds --depth 6`; see docs/simulation.md.
"""

from __future__ import annotations

import argparse
import pickle
import sys
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from coordinator_server.core.groups.settings import GroupSettings
from protocol.errors import ErrorCode
from tests.harness.one_group import Answer, KilledError, OneGroupBroker, next_deadline_ms
from tests.sim.fingerprint import fingerprint
from tests.sim.invariants import check_group
from tests.sim.ledger import Ledger
from tests.sim.players import Player
from tests.sim.referee import Referee
from tests.sim.trace import show

E = ErrorCode
Path = tuple[str, ...]
Snapshot = bytes
"""A pickled world: events are tried on copies, which is cheaper than a replay of the path."""

FAIL, KILL, CRASH, MOVE, TIME, HOLD = "fail", "kill", "crash", "move", "time", "hold"
HELD = 2
"""The number of requests that are handled together after `hold`."""
DEFAULT_DEPTH = 4


class Setting(NamedTuple):
    """The players, the previous events and the broker settings of a world."""

    players: tuple[tuple[str, int, str | None], ...]
    """(name, version of JoinGroup, group instance id)"""
    before: str = ""
    initial_rebalance_delay_ms: int = 0
    max_size: int = 100


_TWO = (("A", 3, None), ("B", 9, None))
_STATIC = (("A", 9, "a"), ("B", 9, None))
_OLD_STATIC = (("A", 7, "a"), ("B", 8, "b"))
_THREE = (("A", 3, None), ("B", 3, None), ("C", 9, None))
_TWO_STABLE = "A.join A.sync B.join B.join A.join A.sync B.sync"

WORLDS: dict[str, Setting] = {
    "one alone": Setting((("A", 3, None),), "A.join"),
    "two from nothing": Setting(_TWO),
    "two with an initial delay": Setting(_TWO, initial_rebalance_delay_ms=3_000),
    "two in a stable group": Setting(_TWO, _TWO_STABLE),
    "a static one and a dynamic one": Setting(
        _STATIC, "A.join A.sync B.join B.join A.join A.sync B.sync"
    ),
    "two static ones of old versions": Setting(
        _OLD_STATIC, "A.join A.sync B.join A.join A.sync B.sync"
    ),
    "three where two have room": Setting(
        _THREE, "A.join B.join A.join A.sync B.sync C.join", max_size=2
    ),
}


class SmallWorld:
    """A small world after a sequence of events."""

    def __init__(self, setting: Setting, say: Callable[[str], None] | None = None) -> None:
        self.broker = OneGroupBroker(
            GroupSettings(
                initial_rebalance_delay_ms=setting.initial_rebalance_delay_ms,
                max_size=setting.max_size,
                new_member_join_timeout_ms=5_000,
            )
        )
        self.say = say
        self.broker.append_error = self._append_error
        self.broker.survivors = self._survivors
        self.referee = Referee(self.broker)
        self.ledger = Ledger(self.broker)
        self.next_append: str | None = None
        self.held: list[tuple[Player, str]] | None = None
        self.players = {
            name: Player(self.broker, name, version, instance_id, self._answered)
            for name, version, instance_id in setting.players
        }
        for event in setting.before.split():
            self.go(event)

    def events(self) -> Iterator[str]:
        """Yield the possible next events."""
        for player in self.players.values():
            for verb in player.verbs():
                yield f"{player.name}.{verb}"
        if self.held is not None:
            return
        yield HOLD
        if self.next_append is None:
            yield FAIL
            yield KILL
        if self.broker.log:
            yield CRASH
            yield MOVE
        group = self.broker.group
        if group is not None and next_deadline_ms(group.purgatory) is not None:
            yield TIME

    def go(self, event: str) -> None:
        """Let an event happen, then check every invariant."""
        self._say(event)
        try:
            self._happen(event)
        except KilledError:
            self._crash()
        self.check()

    def _happen(self, event: str) -> None:
        name, _, verb = event.partition(".")
        if verb:
            self._act(self.players[name], verb)
        elif event == HOLD:
            self.held = []
        elif event in (FAIL, KILL):
            self.next_append = event
        elif event == CRASH:
            self._crash()
        elif event == MOVE:
            self.broker.unload()
            self.ledger.catch_up()
            self.broker.load()
        else:
            self._let_time_pass()

    def _act(self, player: Player, verb: str) -> None:
        if self.held is None:
            player.act(verb)
            return
        self.held.append((player, verb))
        if len(self.held) == HELD:
            held, self.held = self.held, None
            with self.broker.one_drain():
                for one, its_verb in held:
                    one.act(its_verb)

    def _let_time_pass(self) -> None:
        group, now_ms = self.broker.group, self.broker.now_ms
        deadline_ms = None if group is None else next_deadline_ms(group.purgatory)
        assert deadline_ms is not None
        self.broker.advance(deadline_ms - now_ms)

    def _crash(self) -> None:
        self.ledger.may_drop = self.ledger.places()
        self.ledger.catch_up(may_hold_unanswered=True)
        self.next_append = None
        self.broker.crash()

    def _append_error(self) -> ErrorCode:
        if self.next_append != FAIL:
            return E.NONE
        self.next_append = None
        return E.NOT_ENOUGH_REPLICAS

    def _survivors(self, count: int) -> int | None:
        if self.next_append != KILL:
            return None
        self.next_append = None
        return count // 2

    def check(self) -> None:
        """Check the invariants after an event."""
        self.ledger.catch_up()
        self.ledger.check_durable_state(self.broker.group)
        self.broker.answers = [one for one in self.broker.answers if one.parked]
        check_group(self.broker.group, self.broker.answers)
        self.broker.events.clear()
        self.broker.explained.clear()
        self.broker.batches.clear()

    def _answered(self, answer: Answer) -> None:
        self.ledger.answered(answer)
        if self.say is not None:
            self._say(f"    {show(answer.request)}\n        -> {show(answer.response)}")

    def _say(self, text: str) -> None:
        if self.say is not None:
            group = self.broker.group
            self.say(f"{'-' if group is None else f'{group.state} {group.generation_id}':24}{text}")


class Explored(NamedTuple):
    """The number of states and events explored."""

    states: int
    events: int
    seconds: float


def explore(name: str, depth: int) -> Explored:
    """Try all events in all states within `depth` events. Raises on a violation."""
    started = time.process_time()
    first = SmallWorld(WORLDS[name])
    seen = {fingerprint(first)}
    frontier: list[tuple[Path, Snapshot]] = [((), pickle.dumps(first))]
    tried = 0
    for _ in range(depth):
        reached: list[tuple[Path, Snapshot]] = []
        for path, snapshot in frontier:
            world: SmallWorld = pickle.loads(snapshot)
            for event in list(world.events()):
                tried += 1
                world = pickle.loads(snapshot)
                _try(name, world, path, event)
                state = fingerprint(world)
                if state not in seen:
                    seen.add(state)
                    reached.append(((*path, event), pickle.dumps(world)))
        frontier = reached
    return Explored(len(seen), tried, time.process_time() - started)


def _try(name: str, world: SmallWorld, path: Path, event: str) -> None:
    """Let an event happen.

    If it violates an invariant, add a command that reproduces the violation.
    """
    try:
        world.go(event)
    except BaseException as error:
        line = " ".join((*path, event))
        command = f'python -m tests.sim.small_worlds --world "{name}" --path "{line}"'
        error.add_note(f"to see it: {command}")
        raise


def main() -> None:
    """Explore all worlds or one world, or show one path."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim.small_worlds", description=__doc__)
    parser.add_argument("--depth", type=int, default=DEFAULT_DEPTH, help="how many events")
    parser.add_argument("--world", choices=list(WORLDS), help="only this one")
    parser.add_argument("--path", help="show what these events do")
    arguments = parser.parse_args()
    if arguments.path is not None:
        world = SmallWorld(WORLDS[arguments.world], print)
        for event in arguments.path.split():
            world.go(event)
        return
    print(
        f"| world | states | events tried | s of CPU |  depth {arguments.depth}\n|---|---|---|---|"
    )
    for name in [arguments.world] if arguments.world else WORLDS:
        explored = explore(name, arguments.depth)
        print(f"| {name} | {explored.states} | {explored.events} | {explored.seconds:.1f} |")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
