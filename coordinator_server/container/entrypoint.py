"""The entry point of the container image: translates the variables of Kafka's images for `serve`.

`docker run IMAGE` and `docker run IMAGE --set NAME=VALUE` run `serve`. Another command of
coordinator-server, or another program such as `sh -c ...`, can be named instead. As in Kafka's
image, settings are KAFKA_* variables, a server.properties may be mounted, and without
KAFKA_LISTENERS the listeners are derived from the advertised ones. Variables and paths of the
images of Bitnami and Confluent work as well. The data directory is chosen by the mounted volumes.
See docs/docker.md.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import NamedTuple, NoReturn

if __name__ == "__main__":  # importing the settings needs the package `storage`
    from coordinator_server.__main__ import find_packages

    find_packages()

from coordinator_server.config.config import (
    Config,
    ConfigError,
    format_address,
    parse_address,
)

PROPERTIES_FILES = ("/mnt/shared/config/server.properties", "/opt/kafka/config/server.properties")
"""Mount points of a server.properties; the first existing file is used."""

DATA_DIRECTORY = "/var/lib/kafka/data"
DATA_MOUNTS = {
    "/tmp/kraft-combined-logs": "/tmp/kraft-combined-logs",
    "/tmp/kafka-logs": "/tmp/kafka-logs",
    "/bitnami/kafka": "/bitnami/kafka/data",
    "/bitnami/kafka/data": "/bitnami/kafka/data",
    DATA_DIRECTORY: DATA_DIRECTORY,
}
"""Volume paths of Kafka's images -> the data directory; the first mounted one is used.

The paths are those of apache/kafka with its defaults, of bitnami/kafka and of
confluentinc/cp-kafka. The last path is a volume of this image, so it is always mounted.
"""

READY_MESSAGE = (
    "[KafkaServer id={node_id}] started: Kafka Server started, "
    "Transitioning from RECOVERY to RUNNING"
)
"""The log line that Testcontainers modules wait for."""

_CLUSTER_ID_VARIABLES = ("CLUSTER_ID", "KAFKA_CLUSTER_ID", "KAFKA_KRAFT_CLUSTER_ID")
_BITNAMI_PREFIX = "KAFKA_CFG_"
_BITNAMI_USERS = re.compile(
    "KAFKA_(CLIENT_(USERS|PASSWORDS)|(INTER_BROKER|CONTROLLER)_(USER|PASSWORD))(_FILE)?"
)


class Prepared(NamedTuple):
    """The container's settings, and the properties file that some of them come from.

    `origins` maps derived settings to the variables that the user wrote.
    """

    config: Config
    properties_file: str | None
    origins: Mapping[str, str] = MappingProxyType({})


def prepare(
    environment: MutableMapping[str, str],
    *,
    files: Sequence[str] = PROPERTIES_FILES,
    is_mount: Callable[[str], bool] = os.path.ismount,
    reads_secrets: bool = True,
) -> Prepared:
    """Add the variables that Kafka's images would derive. Raises ConfigError.

    KAFKA_CFG_NAME of Bitnami's image becomes KAFKA_NAME, unless KAFKA_NAME is set. Without
    `reads_secrets`, the files of key stores and passwords are not read; the listeners are still
    correct.
    """
    is_bitnami = _rename_bitnami_variables(environment)
    _advertise_host_name(environment)
    file = next((path for path in files if os.path.isfile(path)), None)
    properties = _properties(file)
    advertised = environment.get("KAFKA_ADVERTISED_LISTENERS", "")
    if advertised.strip() not in ("", "auto") and "KAFKA_LISTENERS" not in environment:
        environment["KAFKA_LISTENERS"] = _everywhere(advertised)
    config = Config(file=properties, environment=environment)
    if {config.source("log.dir"), config.source("log.dirs")} == {"default"}:
        mounted = next((path for path in DATA_MOUNTS if is_mount(path)), DATA_DIRECTORY)
        environment["KAFKA_LOG_DIRS"] = DATA_MOUNTS[mounted]
        config = Config(file=properties, environment=environment)
    protocols = [config.security_protocol(listener.name) for listener in config.listeners()]
    if not reads_secrets or not any(
        protocol.uses_tls or protocol.uses_sasl for protocol in protocols
    ):
        return Prepared(config, file)
    from coordinator_server.container.image_variables import ImageVariables

    origins = ImageVariables(environment, config, is_bitnami=is_bitnami).origins
    return Prepared(Config(file=properties, environment=environment), file, origins)


def command(arguments: Sequence[str], prepared: Prepared, cluster_id: str | None) -> list[str]:
    """Return the arguments of coordinator-server: `serve` unless another command is given."""
    if arguments and arguments[0] != "serve" and _is_command(arguments[0]):
        return list(arguments)
    serve = ["serve"]
    if prepared.properties_file is not None:
        serve += ["--config", prepared.properties_file]
    if cluster_id:
        serve += ["--cluster-id", cluster_id]
    serve += ["--ready-message", READY_MESSAGE.format(node_id=prepared.config.node_id)]
    return [*serve, *(arguments[1:] if arguments[:1] == ["serve"] else arguments)]


def run() -> None:
    """Run the container's command and exit with its exit code."""
    arguments = sys.argv[1:]
    if arguments and arguments[0][:1] != "-" and not _is_command(arguments[0]):
        _run_program(arguments)
    try:
        prepared = prepare(os.environ)
    except ConfigError as error:
        print(f"coordinator-server: {error}", file=sys.stderr)
        sys.exit(2)
    # Like Kafka's images, format new data with the cluster id of the environment.
    ids = [os.environ.pop(variable, "") for variable in _CLUSTER_ID_VARIABLES]
    sys.argv[1:] = command(arguments, prepared, next(filter(None, ids), None))
    from coordinator_server.__main__ import exit_with, open_standard_streams

    open_standard_streams()
    from coordinator_server.cli import main

    exit_with(partial(main, origins=prepared.origins))


def _rename_bitnami_variables(environment: MutableMapping[str, str]) -> bool:
    """Rename KAFKA_CFG_NAME to KAFKA_NAME; return whether any variable is Bitnami's.

    In Bitnami's variables, `_` always stands for `.`, except in the protocol names SASL_*.
    """
    variables = [name for name in environment if name.startswith(_BITNAMI_PREFIX)]
    for variable in variables:
        name = "KAFKA_" + variable.removeprefix(_BITNAMI_PREFIX)
        for protocol in ("SASL_SSL", "SASL_PLAINTEXT"):
            name = name.replace(protocol, protocol.replace("_", "__"))
        environment.setdefault(name, environment[variable])
        del environment[variable]
    return bool(variables) or any(map(_BITNAMI_USERS.fullmatch, environment))


def _advertise_host_name(environment: MutableMapping[str, str]) -> None:
    """Convert KAFKA_ADVERTISED_HOST_NAME, a setting of Kafka before 3.0."""
    if environment.keys() & {"KAFKA_LISTENERS", "KAFKA_ADVERTISED_LISTENERS"}:
        return
    host = environment.get("KAFKA_ADVERTISED_HOST_NAME", "").strip()
    if host:
        port = environment.get("KAFKA_PORT", "9092")
        advertised = environment.pop("KAFKA_ADVERTISED_PORT", port)
        environment["KAFKA_LISTENERS"] = f"PLAINTEXT://:{port}"
        environment["KAFKA_ADVERTISED_LISTENERS"] = f"PLAINTEXT://{host}:{advertised}"
        for variable in ("KAFKA_ADVERTISED_HOST_NAME", "KAFKA_PORT"):
            environment.pop(variable, None)


def _is_command(name: str) -> bool:
    from coordinator_server.cli import is_command  # imported only when needed

    return is_command(name)


def _run_program(arguments: list[str]) -> NoReturn:
    """Replace this process by another program, as Kafka's images do."""
    try:
        os.execvp(arguments[0], arguments)
    except OSError as error:
        print(f"coordinator-server: {arguments[0]}: {error.strerror}", file=sys.stderr)
        sys.exit(127)


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
    """Return listeners with the same names and ports on all interfaces, like Kafka's image."""
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
