"""Run a command that may do to files what their modes allow and nothing else.

    python -m tests.faults.unprivileged COMMAND...

Tests often run as root, for whom `chmod` means nothing. Root's right to pass over modes is dropped
here for good (Linux: out of the bounding set, so that it does not come back with exec); whoever is
not root has none to drop. The user stays the same, so the command can read its own code wherever
that lies.
"""

from __future__ import annotations

import ctypes
import os
import sys

PR_CAPBSET_DROP = 24
CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH = 1, 2


def main() -> None:
    """Drop the rights and become the command."""
    if os.geteuid() == 0:
        libc = ctypes.CDLL(None, use_errno=True)
        for capability in (CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH):
            if libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0):
                sys.exit(f"cannot drop capability {capability}: {os.strerror(ctypes.get_errno())}")
    os.execvp(sys.argv[1], sys.argv[1:])


if __name__ == "__main__":
    main()
