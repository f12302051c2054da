"""Our authorizer and Kafka's give the same answers for thousands of random ACLs."""

from __future__ import annotations

import json
import subprocess
from enum import IntEnum
from pathlib import Path

import pytest

from tests.oracle.kafka_process import SECONDS, java
from tests.unit.security.acl_worlds import World, worlds

PROGRAM = Path(__file__).with_name("Authorize.java")
WORLDS = 4000


@pytest.mark.nightly
def test_the_authorizer_answers_as_kafkas_does() -> None:
    """The answers are equal for all pattern types, permissions, hosts, and super users."""
    asked = [*worlds(19, WORLDS)]
    lines = "".join(json.dumps(_plain(world)) + "\n" for world in asked)
    command = java(str(PROGRAM))
    done = subprocess.run(
        command, input=lines, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    theirs = done.stdout.split("\n")[:-1]
    assert len(theirs) == len(asked)
    ours = [world.answers() for world in asked]
    assert sum(answers.count("1") for answers in ours) > WORLDS
    different = [
        (world, own, other)
        for world, own, other in zip(asked, ours, theirs, strict=True)
        if own != other
    ]
    assert not different, (len(different), different[0])


def _plain(world: World) -> dict[str, object]:
    return {
        "super_users": world.super_users,
        "allow": str(world.allows_everyone_without_acl).lower(),
        "acls": [[*map(_text, acl)] for acl in world.acls],
        "questions": [[*map(_text, question)] for question in world.questions],
    }


def _text(value: object) -> object:
    return value.name if isinstance(value, IntEnum) else value
