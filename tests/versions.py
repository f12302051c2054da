"""Which version of an API a test sends when the version is not its subject."""

from __future__ import annotations

from protocol.registry import ApiSpec

_LAST_WITH_NAMES = {"OffsetCommit": 9, "OffsetFetch": 9}


def newest_with_names(spec: ApiSpec) -> int:
    """The newest version, but of OffsetCommit and OffsetFetch the last one that names topics."""
    return _LAST_WITH_NAMES.get(spec.name, spec.max_version)
