"""A section of `security.json` with very many entries, of which single ones change.

The file is written whole for each change. With 20 000 entries it takes half a second to make all of
their texts anew, on the loop that serves everybody; kept, they only have to be joined.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from coordinator_server.events.log import LOG
from storage.security_state import to_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from storage.errors import StorageError
    from storage.security_state import SecurityState

K = TypeVar("K")


class Section(Generic[K]):
    """The entries of one section by their keys, and their texts."""

    def __init__(
        self, state: SecurityState, name: str, entries: Mapping[K, Mapping[str, Any]]
    ) -> None:
        self._state = state
        self._name = name
        self._entries = dict(entries)
        self._texts = {key: to_text(entry) for key, entry in entries.items()}

    def change(self, changed: Mapping[K, Mapping[str, Any]], removed: Iterable[K] = ()) -> None:
        """Put entries in, and take others out; on the disk when this returns.

        Raises StorageError, and changes nothing then. What is removed may be missing.
        """
        entries, texts = dict(self._entries), dict(self._texts)
        for key in removed:
            entries.pop(key, None)
            texts.pop(key, None)
        entries.update(changed)
        texts.update((key, to_text(entry)) for key, entry in changed.items())
        self._state.put(self._name, entries.values(), texts.values())
        self._entries, self._texts = entries, texts

    def clear(self) -> None:
        """Remove all entries. Raises StorageError."""
        self.change({}, list(self._entries))


def log_unwritten(error: StorageError) -> None:
    """Say in the log that users, ACLs or quotas could not be kept; the client is told as well."""
    LOG.emit("security_state.failed", reason=str(error))
