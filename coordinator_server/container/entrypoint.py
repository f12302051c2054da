"""The entry point of the container image: turns the variables of Kafka's image into `serve`.

`docker run IMAGE` serves, `docker run IMAGE --set NAME=VALUE` too; any other command of
coordinator-server can be named instead. As in Kafka's image, settings are KAFKA_* variables, a
server.properties may be mounted, and without KAFKA_LISTENERS the listeners are those that are
advertised. Where the data lies is seen from what is mounted. See docs/docker.md.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, MutableMapping, Sequence
from typing import NamedTuple

if __name__ == "__main__":  # the settings need the package `storage`
    from coordinator_server.__main__ import find_packages

    find_packages()

from coordinator_server.config.config import (
    Config,
    ConfigError,
    format_address,
    parse_address,
)

PROPERTIES_FILES = ("/mnt/shared/config/server.properties", "/opt/kafka/config/server.properties")
"""Where people mount a server.properties; the first that is there counts."""

DATA_DIRECTORY = "/var/lib/kafka/data"
DATA_MOUNTS = ("/tmp/kraft-combined-logs", "/tmp/kafka-logs", DATA_DIRECTORY)
"""Data directories of Kafka's image, with its defaults; the first that is mounted counts."""


class Prepared(NamedTuple):
    """The settings of the container, and the file that some of them come from."""

    config: Config
    properties_file: str | None


def prepare(
    environment: MutableMapping[str, str],
    *,
    files: Sequence[str] = PROPERTIES_FILES,
    is_mount: Callable[[str], bool] = os.path.ismount,
) -> Prepared:
    """Complete the environment with what Kafka's image would add. Raises ConfigError."""
    file = next((path for path in files if os.path.isfile(path)), None)
    properties = _properties(file)
    advertised = environment.get("KAFKA_ADVERTISED_LISTENERS", "")
    if advertised.strip() not in ("", "auto") and "KAFKA_LISTENERS" not in environment:
        environment["KAFKA_LISTENERS"] = _everywhere(advertised)
    config = Config(file=properties, environment=environment)
    if {config.source("log.dir"), config.source("log.dirs")} == {"default"}:
        directory = next((path for path in DATA_MOUNTS if is_mount(path)), DATA_DIRECTORY)
        environment["KAFKA_LOG_DIRS"] = directory
        config = Config(file=properties, environment=environment)
    return Prepared(config, file)


def command(arguments: Sequence[str], properties_file: str | None) -> list[str]:
    """The arguments of coordinator-server: `serve` unless a command is named."""
    rest = list(arguments)
    if rest and rest[0] != "serve" and (rest[0] == "--version" or rest[0][0] != "-"):
        return rest
    if rest[:1] == ["serve"]:
        del rest[0]
    return ["serve", *(["--config", properties_file] if properties_file else []), *rest]


def run() -> None:
    """Run the command that the container was started with, and exit with its code."""
    try:
        prepared = prepare(os.environ)
    except ConfigError as error:
        print(f"coordinator-server: {error}", file=sys.stderr)
        sys.exit(2)
    sys.argv[1:] = command(sys.argv[1:], prepared.properties_file)
    from coordinator_server.__main__ import run as run_command

    run_command()


def _properties(file: str | None) -> dict[str, str]:
    if file is None:
        return {}
    from coordinator_server.config.properties import parse_properties

    try:
        with open(file, encoding="latin-1") as stream:
            return parse_properties(stream.read())
    except (OSError, ValueError) as error:
        raise ConfigError(f"{file}: {error}") from error


def _everywhere(advertised: str) -> str:
    """Listeners of the same names and ports on every interface, as Kafka's image derives them."""
    listeners = []
    for text in advertised.split(","):
        name, separator, address = text.strip().partition("://")
        try:
            port = parse_address(address)[1]
        except ValueError:
            separator = ""
        if not separator:
            raise ConfigError(f"advertised.listeners: {text!r} is not NAME://HOST:PORT")
        listeners.append(f"{name}://{format_address('', port)}")
    return ",".join(listeners)


if __name__ == "__main__":
    run()
