"""The entry point. It makes the rooms `protocol` and `storage` importable, then runs the command.

In a checkout they lie beside this package; in the wheel below it, in `_rooms`, so that installing
adds one name to site-packages. Their folder goes first on sys.path: a folder named `storage` in
the directory where the user happens to be must not be taken for ours.
"""

import os
import sys
from pathlib import Path


def find_rooms() -> None:
    """Put the folder of `protocol` and `storage` first on sys.path."""
    package = Path(__file__).resolve().parent
    rooms = package / "_rooms"
    sys.path.insert(0, str(rooms if rooms.is_dir() else package.parent))


def run() -> None:
    """Run the command line and exit with its code."""
    find_rooms()
    from coordinator_server.cli import main

    try:
        code = main()
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read our output has seen enough, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    sys.exit(code)


if __name__ == "__main__":
    run()
