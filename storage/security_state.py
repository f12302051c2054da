"""Stores users, ACLs, tokens and quotas in two files of the data directory.

Kafka stores these in its metadata log. `security.json` has a JSON list per section;
`security.changes` has one JSON line per change since `security.json` was written. So the cost of a
change does not depend on the number of entries. When the changes are larger than `security.json`,
the next change rewrites `security.json` and removes the changes. After a crash between these two
steps, the changes are applied again, which has no effect. An incomplete last line was never
acknowledged. Only the owner can read the files, because they contain salted passwords.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from storage.change_lines import DAMAGE, is_unwritten, line_error
from storage.disk import CLOSED, Disk, write_atomically
from storage.errors import StorageError

SECURITY_FILE = "security.json"
CHANGES_FILE = "security.changes"
_VERSION = 1
_LEAST_BYTES = 64 * 1024
"""Size of the changes below which `security.json` is not rewritten."""

Identity = tuple[str, ...]


class Kept(NamedTuple):
    """A stored entry: the fields that identify it, and its JSON text."""

    identity: Identity
    text: str


to_text = json.JSONEncoder(separators=(",", ":")).encode
"""Encodes JSON in the form of the files."""

_IDENTITY = {
    "scram_users": ("user", "mechanism"),
    "quotas": ("entity",),
    "delegation_tokens": ("token_id",),
}
"""The fields that identify an entry of a section; in other sections all fields."""


class SecurityState:
    """The contents of the two files. Loading does not change the files; raises StorageError."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._directory = directory
        self._path = f"{directory}/{SECURITY_FILE}"
        self._changes_path = f"{directory}/{CHANGES_FILE}"
        # For each section: the JSON text of each entry, by the entry's identity.
        self._sections: dict[str, dict[Identity, str]] = {}
        self._whole_bytes = self._changes_bytes = 0
        self._is_torn = False
        """Whether the last line of the changes is incomplete, so that nothing may be appended."""
        self.dropped_bytes = 0
        """Bytes at the end of the changes that were ignored, because a write was not completed."""
        self._is_named = False
        """Whether the directory entry of the changes is safe from a power cut."""
        if disk.exists(self._path):
            self._load(self._path, self._load_whole)
        if disk.exists(self._changes_path):
            self._load(self._changes_path, self._load_changes)

    def _load(self, path: str, load: Any) -> None:
        try:
            load(self._disk.read_file(path))
        except DAMAGE as error:
            raise StorageError(
                f"{path} is damaged ({error}); restore it, or move {SECURITY_FILE} and "
                f"{CHANGES_FILE} away, both, to start without users, ACLs, tokens and quotas"
            ) from error

    def _load_whole(self, contents: bytes) -> None:
        sections = _parsed(contents)
        if sections.pop("version") != _VERSION:
            raise ValueError(f"its version is not {_VERSION}")
        for name, entries in sections.items():
            self._apply(name, _read(name, entries), (), replaces=True)
        self._whole_bytes = len(contents)

    def _load_changes(self, contents: bytes) -> None:
        *lines, rest = contents.split(b"\n")
        self._changes_bytes = len(contents)
        self.dropped_bytes = len(rest)
        for number, line in enumerate(lines, start=1):
            if number == len(lines) and not rest and is_unwritten(line):
                self.dropped_bytes = len(line) + 1
                break
            try:
                change = _parsed(line)
                name = change["section"]
                put, drop = _read(name, change["put"]), _read(name, change["drop"])
                self._apply(name, put, drop, replaces=change["replaces"])
            except DAMAGE as error:
                raise ValueError(line_error(number, error)) from error
        self._is_torn = self.dropped_bytes > 0

    def _apply(
        self,
        name: str,
        put: Sequence[Kept],
        drop: Sequence[Kept],
        *,
        replaces: bool,
    ) -> None:
        section = self._sections.setdefault(name, {})
        if replaces:
            section.clear()
        for entry in drop:
            section.pop(entry.identity, None)
        section.update(put)

    def __bool__(self) -> bool:
        """Return whether any section has an entry."""
        return any(self._sections.values())

    def section(self, name: str) -> list[Mapping[str, Any]]:
        """Return the entries of a section, none for an unknown section."""
        return [json.loads(text) for text in self._sections.get(name, {}).values()]

    def has(self, name: str) -> bool:
        """Return whether a section has an entry."""
        return bool(self._sections.get(name))

    def clear(self, name: str) -> None:
        """Remove all entries of a section durably.

        If this raises StorageError, nothing is changed.
        """
        self._write(name, (), (), replaces=True)

    def change(
        self,
        name: str,
        *,
        put: Iterable[Mapping[str, Any]] = (),
        drop: Iterable[Mapping[str, Any]] = (),
    ) -> None:
        """Remove the entries in `drop`, then add or replace the entries in `put`, durably.

        If this raises StorageError, nothing is changed.
        """
        self.change_kept(name, put=_kept(name, put), drop=_kept(name, drop))

    def change_kept(
        self, name: str, *, put: Sequence[Kept] = (), drop: Sequence[Kept] = ()
    ) -> None:
        """Like `change`, with entries that `kept` has encoded, which takes most of the time."""
        self._write(name, put, drop, replaces=False)

    def close(self) -> None:
        """Let all later changes fail with StorageError."""
        self._disk = CLOSED

    def _write(
        self, name: str, put: Sequence[Kept], drop: Sequence[Kept], *, replaces: bool
    ) -> None:
        head = to_text({"section": name, "replaces": replaces})
        texts = (",".join([entry.text for entry in entries]) for entries in (drop, put))
        line = '{},"drop":[{}],"put":[{}]}}\n'.format(head[:-1], *texts).encode()
        try:
            if self._is_torn or self._changes_bytes > max(_LEAST_BYTES, self._whole_bytes):
                self._rewrite()
            self._append(line)
        except OSError as error:
            self._take_back()
            raise StorageError(f"{self._changes_path} cannot be written: {error}") from error
        self._apply(name, put, drop, replaces=replaces)

    def _append(self, line: bytes) -> None:
        self._is_torn = True  # until the write is complete, the last line counts as torn
        file = self._disk.open(self._changes_path, create=True, private=True)
        try:
            file.append([line])
            file.sync()
        finally:
            file.close()
        if not self._is_named:
            self._disk.sync_directory(self._directory)
            self._is_named = True
        self._changes_bytes += len(line)
        self._is_torn = False

    def _take_back(self) -> None:
        """Remove a line whose write failed, if the disk allows that."""
        try:
            file = self._disk.open(self._changes_path)
            try:
                file.truncate(self._changes_bytes)
                file.sync()
            finally:
                file.close()
        except OSError:
            pass  # the next change rewrites the whole file

    def _rewrite(self) -> None:
        """Write all entries to `security.json` and remove the changes. Raises OSError."""
        sections = (
            f',"{name}":[{",".join(section.values())}]' for name, section in self._sections.items()
        )
        contents = f'{{"version":{_VERSION}{"".join(sections)}}}'.encode()
        write_atomically(self._disk, self._path, contents, private=True)
        self._whole_bytes = len(contents)
        if self._disk.exists(self._changes_path):
            self._disk.unlink(self._changes_path)
            self._is_named = False
            self._disk.sync_directory(self._directory)
        self._changes_bytes = 0
        self._is_torn = False


def _parsed(contents: bytes) -> Any:
    """Parse JSON. Raises ValueError, also for lone surrogates, which cannot be sent to clients."""
    parsed = json.loads(contents.decode())
    if b"\\ud" in contents.lower():
        json.dumps(parsed, ensure_ascii=False).encode()
    return parsed


def kept(name: str, entry: Mapping[str, Any]) -> Kept:
    """Encode an entry of a section, for `change_kept`."""
    identity = tuple([str(entry.get(field)) for field in _IDENTITY.get(name, entry)])
    return Kept(identity, to_text(entry))


def _kept(name: str, entries: Iterable[Mapping[str, Any]]) -> list[Kept]:
    return [kept(name, entry) for entry in entries]


def _read(name: str, entries: Any) -> list[Kept]:
    """Encode the entries of a section in a file. Raises ValueError, TypeError."""
    if not all(isinstance(entry, dict) for entry in entries):
        raise ValueError(f"section {name} is no list of objects")
    return _kept(name, entries)
