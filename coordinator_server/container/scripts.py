"""The program behind the scripts in /opt/kafka/bin: runs a tool of `kafka_tools` by script name.

    python -m coordinator_server.container.scripts kafka-topics.sh --list ...
    python -m coordinator_server.container.scripts --names

The second prints the names of all scripts, for the Dockerfile.
"""

from __future__ import annotations

import os
import sys

from coordinator_server.__main__ import exit_with, find_packages


def main() -> int:
    """Run the script that the first argument names, with or without directory and `.sh`."""
    find_packages()
    from coordinator_server.kafka_tools.script_names import BY_NAME, run_script

    path, *arguments = sys.argv[1:] or [""]
    if path == "--names":
        print(*BY_NAME)
        return 0
    name = os.path.basename(path).removesuffix(".sh")
    if name not in BY_NAME:
        print(f"{name or 'SCRIPT'}: not one of {', '.join(sorted(BY_NAME))}", file=sys.stderr)
        return 2
    return run_script(BY_NAME[name], arguments)


if __name__ == "__main__":
    exit_with(main)
