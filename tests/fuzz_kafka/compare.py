"""Play a sequence against Kafka and our broker, and reduce a difference to its cause."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from tests.fuzz_kafka.draw import Step
from tests.fuzz_kafka.explained import explanation
from tests.fuzz_kafka.play import Player, Transcript
from tests.fuzz_kafka.settle import SettlingPlayer

_CONFIRMING, _SHRINKING = 2.0, 1.2
"""Patience of the replays: a difference must also appear to a slow client."""

_SHRINK_SECONDS = 40.0


class Target(NamedTuple):
    """A broker under test; `wait` lets time pass, in real time or by its virtual clock."""

    address: tuple[str, int]
    wait: Callable[[float], object] = time.sleep


class Difference(NamedTuple):
    """The first step with different answers; `kind` describes the difference without ids."""

    step: int
    kind: str
    kafka: Any
    ours: Any


def find(kafka: Target, ours: Target, steps: Sequence[Step]) -> Difference | None:
    """Return the first difference of a slow replay; None if either run shows no difference.

    The slow replay is of the whole sequence, because on a busy machine the quick run's first
    difference may be a delay. A sequence to which Kafka gives varying answers is ignored.
    """
    if _compare(kafka, ours, steps, 1.0) is None:
        return None
    first = _play(kafka, steps, _CONFIRMING)
    settling = partial(unsettled, kafka, ours, _CONFIRMING)
    difference = first_difference(steps, first, _play(ours, steps, _CONFIRMING), settling)
    if difference is None:
        return None
    second = _play(kafka, steps, _CONFIRMING)
    return difference if first[: difference.step + 1] == second[: difference.step + 1] else None


def shrink(kafka: Target, ours: Target, steps: Sequence[Step], kind: str) -> Sequence[Step]:
    """Drop steps from the end to the beginning while the same difference remains."""
    end = time.monotonic() + _SHRINK_SECONDS
    for position in reversed(range(len(steps))):
        fewer = [*steps[:position], *steps[position + 1 :]]
        if time.monotonic() > end or not fewer:
            break
        difference = _compare(kafka, ours, fewer, _SHRINKING)
        if difference is not None and difference.kind == kind:
            steps = _until(fewer, difference)
    return steps


def _until(steps: Sequence[Step], difference: Difference) -> Sequence[Step]:
    return steps[: difference.step + 1]


def _compare(
    kafka: Target, ours: Target, steps: Sequence[Step], patience: float
) -> Difference | None:
    settling = partial(unsettled, kafka, ours, patience)
    answers = (_play(kafka, steps, patience), _play(ours, steps, patience))
    return first_difference(steps, *answers, settling)


def unsettled(kafka: Target, ours: Target, patience: float, steps: Sequence[Step]) -> str:
    """Return the first group whose members do not receive equal complete assignments, or "".

    After the steps all members send heartbeats. The sizes of the assignments and the assigned
    partitions must be equal, and every member must have received its own assignment.
    """
    theirs, own = (
        SettlingPlayer(one.address, _run(), one.wait, patience).settled(steps)
        for one in (kafka, ours)
    )
    for group, expected in theirs.items():
        if expected != own[group] or not expected.is_complete:
            return f"{group} settles: {expected} | {own[group]}"
    return ""


def _run() -> str:
    return f"f{uuid.uuid4().hex[:8]}"


def _play(target: Target, steps: Sequence[Step], patience: float) -> Transcript:
    return Player(target.address, _run(), target.wait, patience).play(steps)


def first_difference(
    steps: Sequence[Step],
    kafka: Transcript,
    ours: Transcript,
    settling: Callable[[Sequence[Step]], str],
) -> Difference | None:
    """Return the first difference of two transcripts that has no explanation.

    `settling` returns the fault of the groups after these steps, see `unsettled`.
    """
    for number, ((label, expected), (_, answered)) in enumerate(zip(kafka, ours, strict=True)):
        paths = sorted(set(_paths(expected, answered)))
        kind = f"{label.split()[0]} {'; '.join(paths[:3])}"
        earlier = list(zip(steps[:number], kafka[:number], strict=True)) if paths else []
        whole = f"{label.split()[0]} {'; '.join(paths)}"
        explained = explanation(whole, f"{earlier} {steps[number]}") if paths else None
        if paths and explained is None:
            return Difference(number, kind, expected, answered)
        if explained is not None and explained.settles:
            fault = settling(steps[: number + 1])
            if fault and explanation(fault, f"{earlier}") is None:
                return Difference(number, fault, expected, answered)
        if explained is not None and explained.ends:
            return None
    return None


def _paths(kafka: Any, ours: Any, path: str = "") -> list[str]:
    """Return the differences as "PATH: KAFKA | OURS"."""
    if isinstance(kafka, dict) and isinstance(ours, dict):
        names = sorted({*kafka, *ours})
        pairs = [(f"{path}.{one}", kafka.get(one, "-"), ours.get(one, "-")) for one in names]
    elif isinstance(kafka, list | tuple) and isinstance(ours, list | tuple):
        if len(kafka) != len(ours):
            return [f"{path.lstrip('.')}#: {len(kafka)} | {len(ours)}"]
        pairs = [(path, *pair) for pair in zip(kafka, ours, strict=True)]
    else:
        is_same = type(kafka) is type(ours) and kafka == ours
        return [] if is_same else [f"{path.lstrip('.')}: {_short(kafka)} | {_short(ours)}"]
    return [line for one in pairs for line in _paths(one[1], one[2], one[0])]


def _short(value: Any) -> str:
    return str(value) if isinstance(value, str) else json.dumps(value)[:90]
