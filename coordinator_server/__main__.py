"""The entry point. It makes `protocol` and `storage` importable, then runs the command.

In a checkout they are beside this package, in the wheel below it in `_packages`, so that installing
adds one name to site-packages. Their folder goes first on sys.path: a folder named `storage` in
the directory where the user happens to be must not be taken for ours.
"""

import os
import sys
from pathlib import Path


def find_packages() -> None:
    """Put the folder of `protocol` and `storage` first on sys.path."""
    package = Path(__file__).resolve().parent
    packages = package / "_packages"
    sys.path.insert(0, str(packages if packages.is_dir() else package.parent))


def run() -> None:
    """Run the command line and exit with its code."""
    find_packages()
    from coordinator_server.cli import main

    try:
        code = main()
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of our output has seen enough, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    sys.exit(code)


if __name__ == "__main__":
    run()
