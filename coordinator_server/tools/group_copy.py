"""Copies group offsets, share group start offsets and group configs from cluster to cluster.

Each offset is mapped to the position of the same record in the target. If the target's committed
offset is larger, it is kept, because a member has already read there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from kafka.errors import ClusterAuthorizationFailedError
from kafka.structs import OffsetAndMetadata, TopicPartition

from coordinator_server.tools.cluster import GROUP, KafkaCluster, MigrationError

Offsets = Mapping[TopicPartition, OffsetAndMetadata]
Places = dict[tuple[TopicPartition, int], int]
"""The target offset of a source record, by the record's partition and offset."""


class CopiedKind(NamedTuple):
    """One kind of group: functions to read and write its offsets, and the offsets in the source."""

    noun: str
    offsets: dict[str, dict[TopicPartition, OffsetAndMetadata]]
    read: Callable[[], Mapping[str, Offsets]]
    write: Callable[[str, Offsets], dict[TopicPartition, str]]


class GroupCopy:
    """The groups of the source, as of the creation of this object."""

    def __init__(
        self, source: KafkaCluster, target: KafkaCluster, say: Callable[[str], None]
    ) -> None:
        self._source = source
        self._target = target
        self._say = say
        self._kinds = (
            CopiedKind("group", source.group_offsets(), target.group_offsets, target.commit),
            CopiedKind(
                "share group",
                source.share_offsets(),
                target.share_offsets,
                target.alter_share_offsets,
            ),
        )

    def places(self) -> dict[TopicPartition, set[int]]:
        """Return the source offsets that must be mapped, by partition."""
        wanted: dict[TopicPartition, set[int]] = {}
        for kind in self._kinds:
            for offsets in kind.offsets.values():
                for place, committed in offsets.items():
                    wanted.setdefault(place, set()).add(committed.offset)
        return wanted

    def commit(self, places: Places, topics: set[str]) -> tuple[int, int]:
        """Commit the mapped offsets; return how many were set and how many were already further.

        An offset is already further if the target's committed offset is larger. Raises
        MigrationError if the target refuses any offset.
        """
        committed = kept = 0
        failures: list[str] = []
        for kind in self._kinds:
            existing = kind.read() if kind.offsets else {}
            for group, offsets in sorted(kind.offsets.items()):
                name = f"{kind.noun} {group}"
                now = existing.get(group, {})
                wanted = {}
                for place, mapped in self._mapped(name, offsets, places, topics).items():
                    before = now.get(place)
                    if before is not None and before.offset > mapped.offset:
                        kept += 1
                    elif before is None or before[:2] != mapped[:2]:
                        wanted[place] = mapped
                    else:
                        committed += 1
                if wanted:
                    failed = kind.write(group, wanted)
                    committed += len(wanted) - len(failed)
                    failures += [f"{name}, {place}: {error}" for place, error in failed.items()]
        if failures:
            raise MigrationError(f"offsets were refused: {'; '.join(failures[:5])}")
        for kind in self._kinds:
            _verify(kind, places)
        return committed, kept

    def _mapped(self, name: str, offsets: Offsets, places: Places, topics: set[str]) -> Offsets:
        mapped = {}
        for place, offset in offsets.items():
            if place.topic in topics:
                new = places[place, offset.offset]
                mapped[place] = OffsetAndMetadata(new, offset.metadata, -1)
            else:
                self._say(f"{name}: {place.topic} is not here, offset left out")
        return mapped

    def configure(self) -> int:
        """Copy the group configs that the target knows; return the number of groups.

        Groups that have configs only in the target keep them. Raises MigrationError.
        """
        try:
            groups = self._source.group_configs()
        except ClusterAuthorizationFailedError:
            self._say("configs of groups are left out: they may not be listed")
            return 0
        for group, configs in sorted(groups.items()):
            known = self._target.known_configs(group, GROUP)
            unknown = set(configs) - known
            if unknown:
                self._say(f"group {group}: not known there: {', '.join(sorted(unknown))}")
            wanted = {name: value for name, value in configs.items() if name in known}
            if wanted:
                now = self._target.configs(group, GROUP)
                self._target.set_configs(group, now, wanted, GROUP)
        return len(groups)


def _verify(kind: CopiedKind, places: Places) -> None:
    """Read the committed offsets back and compare them. Raises MigrationError on a difference."""
    existing = kind.read() if kind.offsets else {}
    for group, offsets in kind.offsets.items():
        for place, offset in offsets.items():
            mapped = places.get((place, offset.offset))
            actual = existing.get(group, {}).get(place)
            if mapped is not None and (actual is None or actual.offset < mapped):
                raise MigrationError(
                    f"{kind.noun} {group}, {place}: {actual}, {mapped} was committed"
                )
