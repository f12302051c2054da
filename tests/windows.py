"""Run our command line with only the features of Windows, on POSIX.

    python -P tests/windows.py serve ...

Modules, calls and signals that Windows lacks are removed, and a stand-in for `msvcrt` is added. The
event loop watches no descriptors and accepts no signal handlers, like the Proactor loop. A file
that is open can be neither renamed nor removed, and a directory cannot be opened. These tests
cannot show how Windows itself behaves.
"""

from __future__ import annotations

import asyncio
import concurrent.futures.thread
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

ROOT = Path(__file__).parents[1]
LOADED_BEFORE = (concurrent.futures.thread, shutil, subprocess, tempfile)
"""Modules that inspect the system when they are imported, so they are loaded before the changes."""

MODULES = ("fcntl", "grp", "pwd", "pty", "resource", "termios", "tty", "uvloop")
CALLS = (
    *("fdatasync", "fork", "forkpty", "geteuid", "getuid", "killpg", "mkfifo", "posix_fallocate"),
    *("pread", "preadv", "pwrite", "pwritev", "readv", "sched_getaffinity", "sched_setaffinity"),
    *("sendfile", "setsid", "sysconf", "writev", "O_CLOEXEC", "O_DIRECTORY"),
)
SIGNALS = ("SIGCHLD", "SIGCONT", "SIGHUP", "SIGKILL", "SIGPIPE", "SIGSTOP", "SIGUSR1", "SIGUSR2")
BREAK = signal.SIGUSR1
"""The signal that stands for Ctrl-Break."""


class Loop(asyncio.SelectorEventLoop):
    """An event loop with only the features of Windows' Proactor loop."""


def not_there(*_: Any) -> None:
    """Raise NotImplementedError, like the Proactor loop."""
    raise NotImplementedError


for call in ("add_reader", "add_writer", "add_signal_handler"):
    setattr(Loop, call, not_there)


def lock(descriptor: int, mode: int, size_bytes: int) -> None:
    """Lock the first byte of a file like `msvcrt.locking`."""
    assert (mode, size_bytes) == (msvcrt.LK_NBLCK, 1)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise PermissionError(13, "Permission denied") from error


msvcrt = SimpleNamespace(LK_NBLCK=2, locking=lock)


def refusing(call: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a call on paths: it refuses files open in this process, and their directories."""

    def checked(*paths: Any, **more: Any) -> Any:
        for path in paths if not more else ():
            for number in os.listdir("/proc/self/fd"):
                try:
                    name = os.readlink(f"/proc/self/fd/{number}")
                except FileNotFoundError:
                    continue
                if f"{name}/".startswith(f"{os.path.realpath(path)}/"):
                    raise PermissionError(13, "The file is open", name)
        return call(*paths, **more)

    return checked


def no_directories(call: Callable[..., int]) -> Callable[..., int]:
    """Return `os.open` without support for directories."""

    def checked(path: Any, *arguments: Any, **more: Any) -> int:
        if not more and os.path.isdir(path):
            raise PermissionError(13, "Permission denied", path)
        return call(path, *arguments, **more)

    return checked


def become_windows() -> None:
    """Remove what Windows lacks."""
    for name in MODULES:
        sys.modules[name] = None  # type: ignore[assignment]  # importing the module fails
    for name in CALLS:
        if hasattr(os, name):
            delattr(os, name)
    for name in SIGNALS:
        delattr(signal, name)
    for name in ("rename", "replace", "unlink", "remove"):
        setattr(os, name, refusing(getattr(os, name)))
    os.open = no_directories(os.open)
    signal.__dict__["SIGBREAK"] = BREAK
    sys.modules["msvcrt"] = msvcrt  # type: ignore[assignment]  # a fake module
    asyncio.new_event_loop = Loop
    sys.platform = "win32"


if __name__ == "__main__":
    become_windows()
    sys.path.insert(0, str(ROOT))
    from coordinator_server.__main__ import run

    run()
