"""Play scenarios against brokers, several at a time, and report different answers."""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, Self

from tests.conformance import scenarios as package
from tests.conformance import timing
from tests.conformance.cluster import Cluster, environment_of
from tests.conformance.environment import Environment
from tests.conformance.preparation import prepared
from tests.conformance.recording import Transcript
from tests.conformance.stage import Scenario, play
from tests.conformance.tables import data_files

_SHOWN_STEPS = 4
_SHOWN_CHARACTERS = 500
_SECOND_CHANCES = 12

_SLOW_AREAS = ("expiry", "timers", "consumer_expiry", "consumer_regex", "consumer_timers")


@cache
def all_scenarios() -> tuple[Scenario, ...]:
    """Return all scenarios: first those in Python modules, then those in data files."""
    names = sorted(one.name for one in iter_modules(package.__path__))
    modules = [import_module(f"{package.__name__}.{name}") for name in names]
    areas = [module.AREA for module in modules if hasattr(module, "AREA")]
    scenarios: list[Scenario] = [one for area in areas for one in area.scenarios]
    scenarios += [one for file in data_files() for one in file.scenarios()]
    assert len({one.name for one in scenarios}) == len(scenarios)
    return tuple(scenarios)


def select(globs: Sequence[str] | None) -> list[Scenario]:
    """Return the scenarios whose name matches a glob; all scenarios without globs."""
    return [
        one
        for one in all_scenarios()
        if not globs or any(fnmatch.fnmatch(one.name, glob) for glob in globs)
    ]


class Player:
    """The brokers by profile, and the number of scenarios played at a time.

    `patience` scales all waits and short timeouts, for a busy machine.
    """

    def __init__(
        self, addresses: Mapping[str, str | None], jobs: int = 8, patience: float = 1.0
    ) -> None:
        timing.scale = patience
        self._jobs = jobs
        self._environments: dict[str, Callable[[], Environment]] = {
            profile: partial(_environment, address)
            for profile, address in addresses.items()
            if address is not None
        }

    @classmethod
    def in_cluster(cls, cluster: Cluster, patience: float = 1.0) -> Self:
        """Return a player for profile C: one scenario at a time, because each uses all brokers."""
        player = cls({}, 1, patience)
        player._environments["c"] = partial(environment_of, cluster)
        return player

    def with_jobs(self, jobs: int) -> Self:
        """Play at most this many scenarios at a time, and return the player."""
        self._jobs = min(jobs, self._jobs)
        return self

    def play(self, scenarios: Sequence[Scenario]) -> dict[str, Transcript]:
        """Return transcripts by name; scenarios of a profile without a broker are left out.

        Each run uses new names of groups and topics.
        """
        environments = {profile: make() for profile, make in self._environments.items()}
        playable = [one for one in scenarios if one.profile in environments]
        # Start the slow scenarios first and fill the remaining time with quick ones.
        playable.sort(key=lambda one: (one.profile != "b", one.area not in _SLOW_AREAS))

        def run(scenario: Scenario) -> Transcript:
            steps = play(environments[scenario.profile], scenario)
            as_stored: Transcript = json.loads(json.dumps(steps))
            return as_stored

        with ThreadPoolExecutor(self._jobs) as pool:
            return dict(zip([one.name for one in playable], pool.map(run, playable), strict=True))

    def play_as_expected(
        self,
        scenarios: Sequence[Scenario],
        wanted: Mapping[str, Transcript],
        explained: Collection[str] = (),
    ) -> dict[str, Transcript]:
        """Return transcripts like `play`; repeat a few unexpected results with less load.

        A result is expected if it equals the `wanted` transcript, or differs in an `explained`
        scenario. On a busy machine an answer may come after the scenario has recorded its absence.
        """
        played = self.play(scenarios)
        surprising = [
            one
            for one in scenarios
            if one.name in played
            and (played[one.name] == wanted[one.name]) == (one.name in explained)
        ]
        if 0 < len(surprising) <= _SECOND_CHANCES:
            played |= self.with_jobs(2).play(surprising)
        return played


def _environment(address: str) -> Environment:
    host, _, port = address.rpartition(":")
    return prepared(host, int(port))


def areas(played: Collection[str], failed: Collection[str]) -> dict[str, tuple[int, int]]:
    """Return the numbers of passed and of played scenarios by area."""
    counts: dict[str, tuple[int, int]] = {}
    for name in sorted(played):
        area = name.split(".")[0]
        passed, count = counts.get(area, (0, 0))
        counts[area] = (passed + (name not in failed), count + 1)
    return counts


def differences(wanted: Transcript, got: Transcript) -> list[str]:
    """Return lines about the first differing steps and the differing parts in them."""
    lines: list[str] = []
    for number in range(max(len(wanted), len(got))):
        label, result = wanted[number] if number < len(wanted) else ["<end>", None]
        our_label, our_result = got[number] if number < len(got) else ["<end>", None]
        if [label, result] == [our_label, our_result]:
            continue
        if label != our_label:
            lines += [f"  {number + 1}: wanted {label} = {_short(result)}"]
            lines += [f"     got    {our_label} = {_short(our_result)}"]
            break
        result, our_result = _different_parts(result, our_result)
        lines += [f"  {number + 1}: {label}: wanted {_short(result)}"]
        lines += [f"     got    {_short(our_result)}"]
        if len(lines) >= 2 * _SHOWN_STEPS:
            break
    return lines


def _different_parts(wanted: Any, got: Any) -> tuple[Any, Any]:
    if not (isinstance(wanted, dict) and isinstance(got, dict)):
        return wanted, got
    names = [one for one in wanted | got if wanted.get(one) != got.get(one)]
    parts = {one: _different_parts(wanted.get(one), got.get(one)) for one in names}
    return {one: parts[one][0] for one in names}, {one: parts[one][1] for one in names}


def _short(result: Any) -> str:
    text = json.dumps(result, sort_keys=True)
    return text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + ".."
