"""The file descriptor limit of the process, and the limit of open log files."""

from __future__ import annotations

import sys
from contextlib import suppress

from storage.open_files import DEFAULT_MAX_OPEN_FILES

_MOST = 1_048_576  # more than a broker needs; macOS refuses "unlimited"
_LEAST_OF_LOGS = 8


def raise_limit() -> None:
    """Raise the soft limit to the hard limit, as Java does; macOS and cron set it to 256.

    Windows has no such limit.
    """
    if sys.platform != "win32":
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = _MOST if hard == resource.RLIM_INFINITY else min(hard, _MOST)
        if soft != resource.RLIM_INFINITY and soft < wanted:
            with suppress(ValueError, OSError):  # the operating system may have a lower limit
                resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def for_logs() -> int:
    """Return the limit of open log files: a quarter of all descriptors; clients need the rest."""
    if sys.platform != "win32":
        import resource

        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft != resource.RLIM_INFINITY:
            return max(min(soft // 4, DEFAULT_MAX_OPEN_FILES), _LEAST_OF_LOGS)
    return DEFAULT_MAX_OPEN_FILES
