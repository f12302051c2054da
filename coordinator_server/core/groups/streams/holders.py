"""Holders: the processes that hold each task.

A process is an instance of the application; its threads are the members. Source: the maps of
StreamsGroup from tasks to process ids.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coordinator_server.core.groups.streams.tasks import OwnedTasks


class Holders:
    """The tasks that members hold or still have to revoke, by process."""

    __slots__ = ("_copies", "_runners")

    def __init__(self) -> None:
        self._runners: dict[str, dict[int, str]] = {}
        self._copies: dict[tuple[str, int], list[str]] = {}
        """Task -> processes that hold the task as standby or warm-up. A process occurs twice while
        one copy replaces the other."""

    def runner(self, subtopology_id: str, partition: int) -> str | None:
        """Return the process in which a task is active, or None."""
        return self._runners.get(subtopology_id, {}).get(partition)

    def has_copy(self, process_id: str, subtopology_id: str, partition: int) -> bool:
        """Return whether a process holds a task as standby or warm-up."""
        return process_id in self._copies.get((subtopology_id, partition), ())

    def add(self, process_id: str, tasks: OwnedTasks) -> None:
        """Add tasks that a member of the process holds."""
        for subtopology_id, partitions in tasks.active.items():
            runners = self._runners.setdefault(subtopology_id, {})
            runners.update(dict.fromkeys(partitions, process_id))
        for task in tasks.copies():
            self._copies.setdefault(task, []).append(process_id)

    def remove(self, process_id: str, tasks: OwnedTasks) -> None:
        """Remove tasks that a member of the process no longer holds."""
        for subtopology_id, partitions in tasks.active.items():
            runners = self._runners[subtopology_id]
            for partition in partitions:
                if runners.get(partition) == process_id:
                    del runners[partition]
        for task in tasks.copies():
            copies = self._copies[task]
            copies.remove(process_id)
            if not copies:
                del self._copies[task]
