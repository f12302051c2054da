"""Setups of share group scenarios: a topic with records, a group, and joined members."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.conformance import share_looks as looks
from tests.conformance.producers import Partition
from tests.conformance.shares import ShareMember, produce
from tests.conformance.stage import Stage

EARLIEST = {"share.auto.offset.reset": "earliest"}


def group(
    t: Stage,
    names: str = "A",
    sizes: Sequence[int] = (5,),
    *,
    partitions: int = 1,
    configs: Mapping[str, str] | None = None,
) -> tuple[Partition, list[ShareMember]]:
    """Create a topic with batches of these sizes in partition 0, and members with assignments.

    Return partition 0 and the members. Nothing is recorded or fetched. The group starts at the
    earliest offset.
    """
    topic = looks.topic(t, partitions)
    looks.configure(t, EARLIEST | dict(configs or {}))
    members = join(t, names, topic)
    place = (topic, 0)
    produce(t, place, *sizes)
    return place, members


def join(t: Stage, names: str, topic: str) -> list[ShareMember]:
    """Return members with these one-letter names, unrecorded, once each has an assignment."""
    return [ShareMember(t, name, (topic, 0)).joined(topic) for name in names]


def reader(t: Stage, sizes: Sequence[int] = (5,), **configs: str) -> tuple[Partition, ShareMember]:
    """Return a partition with records and one member; `configs` are given with _ for dots."""
    named = {key.replace("_", "."): value for key, value in configs.items()}
    place, (member,) = group(t, "A", sizes, configs=named)
    return place, member


def readers(
    t: Stage, sizes: Sequence[int] = (5,), **configs: str | int
) -> tuple[Partition, ShareMember, ShareMember]:
    """Return a partition with records and two members, A and B, both assigned to it."""
    named = {key.replace("_", "."): str(value) for key, value in configs.items()}
    place, (first, second) = group(t, "AB", sizes, configs=named)
    return place, first, second
