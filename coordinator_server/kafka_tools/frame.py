"""What every tool is run by: options, `--help`, the client, and errors as Kafka's tools print them.

Stack traces of Java are left out; the lines around them are kept, as scripts look for the names of
the exceptions in them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple, NoReturn

from coordinator_server.client import Address, Client, ClientError, ClientSettings, read_settings
from coordinator_server.kafka_tools.java import exception_name, log
from coordinator_server.kafka_tools.options import (
    HELP,
    VERSION,
    Option,
    Options,
    OptionsError,
    UsageError,
    parse_options,
    usage,
)
from protocol import REFERENCE_VERSION

BOOTSTRAP_SERVER = Option(
    "bootstrap-server",
    "REQUIRED: the brokers to connect to first.",
    argument="server to connect to",
)
COMMAND_CONFIG = Option(
    "command-config",
    "A properties file with settings of the client.",
    argument="command config property file",
)


class ToolError(Exception):
    """What ends a tool as an uncaught exception of Java does: its message and its class."""

    def __init__(self, java_class: str, message: str) -> None:
        super().__init__(message)
        self.java_class = java_class


class Tool(NamedTuple):
    """One tool: its official name without `.sh`, its options, its work, and a line for `--help`.

    `failed` prints an exception and gives the exit code, where a tool has its own way.
    """

    name: str
    options: Sequence[Option]
    run: Callable[[Options], int]
    purpose: str
    abbreviations: bool = False
    failed: Callable[[Exception], int] | None = None


def run_tool(tool: Tool, arguments: Sequence[str]) -> int:
    """Run a tool; returns its exit code."""
    declared = (*tool.options, HELP, VERSION)
    failed = tool.failed or print_uncaught
    try:
        options = parse_options(declared, arguments, abbreviations=tool.abbreviations)
        if not arguments or options.has("help"):
            raise UsageError(tool.purpose)
        if options.has("version"):
            print(REFERENCE_VERSION)
            return 0
        for option in declared:
            if option.instead and options.has(option.name):
                print(f"{tool.name}: --{option.name}: {option.instead}", file=sys.stderr)
                return 1
        return tool.run(options)
    except UsageError as error:
        print(error, file=sys.stderr)
        sys.stderr.write(usage(declared))
        return 1
    except (OptionsError, ToolError, ClientError) as error:
        return failed(error)


def java_class(error: Exception) -> str:
    """The full name of the Java exception for what a tool raises."""
    if isinstance(error, OptionsError | ToolError):
        return error.java_class
    assert isinstance(error, ClientError)
    return exception_name(error.code)


def print_uncaught(error: Exception) -> int:
    """Print an error as a tool does whose `main` prints what it catches."""
    print(error, file=sys.stderr)
    print(f"{java_class(error)}: {error}\n", file=sys.stderr)
    return 1


def illegal_argument(message: str) -> NoReturn:
    """Raise what Java's IllegalArgumentException is here."""
    raise ToolError("java.lang.IllegalArgumentException", message)


def connect(
    options: Options,
    *,
    server: str = "bootstrap-server",
    config: str = "command-config",
    client_name: str = "AdminClient",
    settings: ClientSettings | None = None,
) -> Client:
    """The client for `--bootstrap-server`, with the settings of `--command-config`.

    A broker that is not there costs a warning on standard error at each attempt, as in Kafka, whose
    tools wait for it until `default.api.timeout.ms` is over. Raises ClientError, ToolError.
    """
    path = options.value(config)
    properties = {} if path is None else read_properties(path)
    settings = read_settings(properties, settings)

    def warn(node_id: int, address: Address) -> None:
        log(
            "WARN",
            f"[{client_name} clientId={settings.client_id}] Connection to node {node_id}"
            f" ({address.host}:{address.port}) could not be established."
            " Node may not be available.",
            "org.apache.kafka.clients.NetworkClient",
        )

    return Client(options.value(server) or "", settings, warn)


def read_properties(path: str) -> dict[str, str]:
    """A properties file. Raises ToolError with the class and words of Java's exception."""
    from coordinator_server.config.properties import parse_properties

    try:
        with open(path, encoding="latin-1") as stream:
            return parse_properties(stream.read())
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        raise ToolError("java.nio.file.NoSuchFileException", f"{path}: {reason}") from error
    except ValueError as error:
        raise ToolError("java.lang.IllegalArgumentException", str(error)) from error
