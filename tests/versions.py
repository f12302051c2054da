"""The API versions that tests use unless they test a particular version."""

from __future__ import annotations

from protocol.registry import ApiSpec

_LAST_WITH_NAMES = {"OffsetCommit": 9, "OffsetFetch": 9}


def newest_with_names(spec: ApiSpec) -> int:
    """Return the newest version; for OffsetCommit and OffsetFetch the last one with topic names."""
    return _LAST_WITH_NAMES.get(spec.name, spec.max_version)
