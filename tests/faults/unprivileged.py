"""Run a command that has only the file permissions that the modes grant.

    python -m tests.faults.unprivileged COMMAND...

Tests often run as root, which ignores `chmod`. This module drops root's capabilities to bypass file
modes for good (on Linux also from the bounding set, so that exec does not restore them). Other
users have no such capabilities. The user id stays the same, so the command can read its own code
wherever that is installed.
"""

from __future__ import annotations

import ctypes
import os
import sys

PR_CAPBSET_DROP = 24
CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH = 1, 2


def main() -> None:
    """Drop the capabilities and execute the command."""
    if os.geteuid() == 0:
        libc = ctypes.CDLL(None, use_errno=True)
        for capability in (CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH):
            if libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0):
                sys.exit(f"cannot drop capability {capability}: {os.strerror(ctypes.get_errno())}")
    os.execvp(sys.argv[1], sys.argv[1:])


if __name__ == "__main__":
    main()
