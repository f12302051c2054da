"""The entry point. It makes `protocol` and `storage` importable, then runs the command.

In a checkout they are beside this package, in the wheel below it in `_packages`, so that installing
adds one name to site-packages. Their folder goes first on sys.path: a folder named `storage` in
the directory where the user happens to be must not be taken for ours.
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
    """Open what is closed of the first three descriptors, which no socket may have: libuv aborts.

    A daemon may be started without them.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest that is free, this one


def run() -> None:
    """Run the command line and exit with its code."""
    open_standard_streams()
    find_packages()
    from coordinator_server.cli import main

    exit_with(main)


def exit_with(main: Callable[[], int]) -> NoReturn:
    """Run a command and exit with its code.

    A reader that has seen enough, as `head` has, ends the command with code 1 and no word; output
    that cannot be written for another reason is one line. Code 130 after Ctrl-C, as a shell has it.
    """
    try:
        try:
            code: str | int | None = main()
        except SystemExit as end:  # argparse's, after --help too
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
    """What Python still holds would fail once more when it is written at the end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    run()
