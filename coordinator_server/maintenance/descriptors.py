"""How many file descriptors the process may have, and how many of them the logs get."""

from __future__ import annotations

import sys
from contextlib import suppress

from storage.open_files import DEFAULT_MAX_OPEN_FILES

_MOST = 1_048_576  # more than any broker of one machine needs; macOS takes no "unlimited"
_LEAST_OF_LOGS = 8


def raise_limit() -> None:
    """Raise the soft limit to the hard one, as Java does; macOS and cron give 256.

    Windows limits no process like that.
    """
    if sys.platform != "win32":
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = _MOST if hard == resource.RLIM_INFINITY else min(hard, _MOST)
        if soft != resource.RLIM_INFINITY and soft < wanted:
            with suppress(ValueError, OSError):  # a system with a lower limit of its own
                resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def for_logs() -> int:
    """How many files of logs may be open at once: a quarter of the limit, clients need the rest."""
    if sys.platform != "win32":
        import resource

        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft != resource.RLIM_INFINITY:
            return max(min(soft // 4, DEFAULT_MAX_OPEN_FILES), _LEAST_OF_LOGS)
    return DEFAULT_MAX_OPEN_FILES
