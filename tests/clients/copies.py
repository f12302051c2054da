"""Build the client programs in Go and JavaScript, and check for the tools that they need.

Go downloads franz-go, sarama, kafka-go and Prometheus (each `go.sum` pins them); npm downloads
kafkajs into the checkout. Each is downloaded once.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests import npm

HERE = Path(__file__).parent
LEAST_GO = (1, 21)
"""The first Go version that downloads the toolchain requested in `go.mod`."""
LEAST_NODE = 18
KAFKAJS = "2.2.4"


def missing() -> str | None:
    """Return the tools that this machine lacks, or None if the programs can run."""
    if _version(("go", "version"), r"go(\d+)\.(\d+)") < LEAST_GO:
        return f"no Go {'.'.join(map(str, LEAST_GO))} or newer"
    if _version(("node", "--version"), r"v(\d+)") < (LEAST_NODE,):
        return f"no Node.js {LEAST_NODE} or newer"
    return None if shutil.which("npm") else "no npm"


def franz_go(directory: Path) -> tuple[list[str], dict[str, str]]:
    """Return the command and environment of the franz-go program that copies records."""
    return _go_program("franz_go", directory)


def sarama(directory: Path) -> tuple[list[str], dict[str, str]]:
    """Return the command and environment of the sarama 1.43.3 program that searches by time."""
    return _go_program("sarama", directory)


def kafka_go(directory: Path) -> tuple[list[str], dict[str, str]]:
    """Return the command and environment of the kafka-go program that reads in a group."""
    return _go_program("kafka_go", directory)


def kadm(directory: Path) -> tuple[list[str], dict[str, str]]:
    """Return the command and environment of the program that lists lags with franz-go's kadm."""
    return _go_program("kadm", directory)


def promql(directory: Path) -> tuple[list[str], dict[str, str]]:
    """Return the command and environment of the program that checks Prometheus rules."""
    return _go_program("promql", directory)


def _go_program(folder: str, directory: Path) -> tuple[list[str], dict[str, str]]:
    """Build the Go program of a folder into `directory`."""
    program = directory / folder
    _run(("go", "build", "-o", str(program), "."), HERE / folder)
    return [str(program)], dict(os.environ)


def kafkajs(directory: Path, script: str = "kafkajs_copy.js") -> tuple[list[str], dict[str, str]]:
    """Return the command and environment of a program that uses kafkajs.

    `directory` is not used: the library is in the checkout, where git ignores it.
    """
    environment = {**os.environ, "NODE_PATH": str(npm.library("kafkajs", KAFKAJS))}
    return ["node", str(HERE / script)], environment


def _run(command: Sequence[str], directory: Path) -> None:
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}: {(done.stdout + done.stderr)[-2000:]}"


def _version(command: Sequence[str], pattern: str) -> tuple[int, ...]:
    if shutil.which(command[0]) is None:
        return ()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    match = re.search(pattern, done.stdout)
    return tuple(map(int, match.groups())) if match else ()
