"""What a data directory keeps of security: users, ACLs and quotas, in one file of ours.

Kafka keeps these in its metadata log. `security.json` has a JSON list per section. It is replaced
whole for every change, so that a crash leaves the old or the new one; it is small, and rarely
changes. It is readable by its owner alone, as it has salted passwords.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from storage.disk import Disk, write_atomically
from storage.errors import StorageError

SECURITY_FILE = "security.json"
_VERSION = 1


class SecurityState:
    """What `security.json` says. Reading it changes nothing."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._path = f"{directory}/{SECURITY_FILE}"
        self._sections: dict[str, list[Mapping[str, Any]]] = {}
        if disk.exists(self._path):
            self._load()

    def _load(self) -> None:
        try:
            contents = json.loads(self._disk.read_file(self._path))
            if contents.pop("version") != _VERSION:
                raise ValueError(f"its version is not {_VERSION}")
            for name, entries in contents.items():
                if not all(isinstance(entry, dict) for entry in entries):
                    raise ValueError(f"section {name} is no list of objects")
                self._sections[name] = entries
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise StorageError(
                f"{self._path} is damaged ({error}); restore it, or move it away to start without "
                "users, ACLs and quotas"
            ) from error

    def __bool__(self) -> bool:
        """Whether any section has an entry."""
        return any(self._sections.values())

    def section(self, name: str) -> list[Mapping[str, Any]]:
        """The entries of a section, none if it was never written."""
        return list(self._sections.get(name, ()))

    def put(self, name: str, entries: Iterable[Mapping[str, Any]]) -> None:
        """Replace a section; on the disk when this returns. Raises StorageError, and changes
        nothing then."""
        sections = {**self._sections, name: list(entries)}
        contents = json.dumps({"version": _VERSION, **sections}, separators=(",", ":"))
        try:
            write_atomically(self._disk, self._path, contents.encode(), private=True)
        except OSError as error:
            raise StorageError(f"{self._path} cannot be written: {error}") from error
        self._sections = sections
