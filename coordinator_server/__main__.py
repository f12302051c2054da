"""The entry point: make `protocol` and `storage` importable, then run the command.

In a checkout the two packages are beside this one. A wheel has them in `_packages` below this one,
so that installing adds one name to site-packages. Their folder goes first on sys.path, because the
user's working directory may contain a folder named `storage`.
"""

import errno
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

_OUTPUT_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


def find_packages() -> None:
    """Put the folder of `protocol` and `storage` first on sys.path."""
    package = Path(__file__).resolve().parent
    packages = package / "_packages"
    sys.path.insert(0, str(packages if packages.is_dir() else package.parent))


def open_standard_streams() -> None:
    """Open file descriptors 0 to 2 on the null device if they are closed, as in some daemons.

    libuv aborts when a socket gets one of these descriptors.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            # os.open returns the lowest free descriptor, which is the closed one.
            os.open(os.devnull, os.O_RDWR)


def run() -> None:
    """Run the command line and exit with its code."""
    open_standard_streams()
    find_packages()
    from coordinator_server.cli import main

    exit_with(main)


def exit_with(main: Callable[[], int]) -> NoReturn:
    """Run a command and exit with its code.

    The code is 1 if the output cannot be written: silently if the reader closed the pipe, as `head`
    does, otherwise with a one-line message. The code is 130 after Ctrl-C, as in a shell.
    """
    try:
        try:
            code: str | int | None = main()
        except SystemExit as end:  # argparse raises SystemExit, also after --help
            code = end.code
        if sys.stdout is not None:
            sys.stdout.flush()
    except KeyboardInterrupt:
        code = 130
    except BrokenPipeError:
        code = 1
        _forget_output()
    except OSError as error:
        if error.errno not in _OUTPUT_ERRORS or error.filename is not None:
            raise
        code = 1
        _forget_output()
        print(f"coordinator-server: the output cannot be written: {error}", file=sys.stderr)
    sys.exit(code)


def _forget_output() -> None:
    """Send standard output to the null device, so that Python's flush at exit cannot fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    run()
