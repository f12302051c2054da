"""Runs tools: options, `--help`, the client, and errors in the format of Kafka's tools.

Java stack frames are left out. The lines around them are kept, because scripts search them for
exception names.
"""

from __future__ import annotations

import re
import socket
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple, NoReturn, TextIO

from coordinator_server.client import (
    Address,
    Client,
    ClientError,
    ClientSettings,
    SaslError,
    TlsError,
    UnsupportedSettingError,
    parse_addresses,
    read_settings,
)
from coordinator_server.kafka_tools.java import exception_name, log, socket_address
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
from protocol.errors import ErrorCode

BOOTSTRAP_SERVER = Option(
    "bootstrap-server",
    "REQUIRED: the bootstrap servers.",
    argument="server to connect to",
)
COMMAND_CONFIG = Option(
    "command-config",
    "A properties file with client settings.",
    argument="command config property file",
)


class ToolError(Exception):
    """The tool ends like an uncaught Java exception, with this class and message."""

    def __init__(self, java_class: str, message: str) -> None:
        super().__init__(message)
        self.java_class = java_class


class NotHereError(Exception):
    """A feature of Kafka's tool that is not implemented here; the message names an alternative."""


NETWORK_CLIENT = "org.apache.kafka.clients.NetworkClient"
"""The logger of most warnings of Kafka's clients."""

_NO_ADMIN_CLIENT = "Failed to create new KafkaAdminClient"
ADMIN_METADATA = "org.apache.kafka.clients.admin.internals.AdminMetadataManager"

Failure = OptionsError | ToolError | ClientError
FAILURES = (OptionsError, ToolError, ClientError)
"""Errors that end a tool like a Java exception."""


EXECUTION = "java.util.concurrent.ExecutionException"
"""The exception in which a Java Future wraps another one."""


def print_with_usage(error: Exception, options: Sequence[Option]) -> int:
    """Print an argument error and the usage; return the exit code."""
    print(error, file=sys.stderr)
    sys.stderr.write(usage((*options, HELP, VERSION)))
    return 1


def print_uncaught(error: Failure) -> int:
    """Print an error like a tool whose `main` prints caught exceptions; return the exit code."""
    print(error, file=sys.stderr)
    print_stack_trace(error)
    print(file=sys.stderr)
    return 1


def print_thrown_by_main(error: Failure) -> int:
    """Print an error like an exception that Java's `main` does not catch; return the exit code."""
    print_stack_trace(error, 'Exception in thread "main" ')
    return 1


def print_stack_trace(error: Failure, prefix: str = "", stream: TextIO | None = None) -> None:
    """Print an exception and its causes like Throwable.printStackTrace, without stack frames.

    The default stream is standard error.
    """
    cause: BaseException | None = error
    while isinstance(cause, FAILURES):
        text = str(cause)
        line = f"{prefix}{java_class(cause)}{': ' if text else ''}{text}"
        print(line, file=stream or sys.stderr)
        cause, prefix = cause.__cause__, "Caused by: "


def raise_wrapped(error: Failure, *java_classes: str) -> NoReturn:
    """Raise an error wrapped in Java exceptions, innermost first, like `new X(cause)`."""
    outer = error
    for name in java_classes:
        inner, outer = outer, ToolError(name, f"{java_class(outer)}: {outer}")
        outer.__cause__ = inner
    raise outer


class ToolSpec(NamedTuple):
    """A tool: its official name without `.sh`, its options, its function, and a line for `--help`.

    `failed` prints an exception and returns the exit code, for tools with their own error format.
    `without_arguments` is the text above the usage if no arguments are given; the default is the
    purpose. `help_is_output`: `--help` prints to standard output and exits with 0. `before` is
    called before the options are parsed.
    """

    name: str
    options: Sequence[Option]
    run: Callable[[Options], int]
    purpose: str
    failed: Callable[[Failure], int] = print_uncaught
    without_arguments: str = ""
    help_is_output: bool = False
    before: Callable[[], None] | None = None


def run_tool(tool: ToolSpec, arguments: Sequence[str]) -> int:
    """Run a tool and return its exit code."""
    declared = (*tool.options, HELP, VERSION)
    if tool.before is not None:
        tool.before()
    try:
        options = parse_options(declared, arguments)
        if not arguments and tool.without_arguments:
            raise UsageError(tool.without_arguments)
        if tool.help_is_output and options.has("help"):
            print(f"{tool.purpose}\n{usage(declared)}", end="")
            return 0
        if not arguments or options.has("help"):
            raise UsageError(tool.purpose)
        if options.has("version"):
            print(REFERENCE_VERSION)
            return 0
        for option in declared:
            if option.instead and options.has(option.name):
                raise NotHereError(f"--{option.name}: {option.instead}")
        return tool.run(options)
    except UsageError as error:
        return print_with_usage(error, tool.options)
    except (NotHereError, UnsupportedSettingError) as error:
        print(f"{tool.name}: {error}", file=sys.stderr)
        return 1
    except FAILURES as error:
        return tool.failed(error)


def java_class(error: Failure) -> str:
    """Return the full name of the Java exception that corresponds to a tool's error."""
    if isinstance(error, TlsError):
        return "org.apache.kafka.common.errors.SslAuthenticationException"
    return exception_name(error.code) if isinstance(error, ClientError) else error.java_class


def illegal_argument(message: str) -> NoReturn:
    """Raise the equivalent of Java's IllegalArgumentException."""
    raise ToolError("java.lang.IllegalArgumentException", message)


def parse_principal(text: str) -> str:
    """Parse a principal of the form TYPE:NAME. Raises ToolError."""
    stripped = text.strip()
    if ":" not in stripped:
        illegal_argument(
            f"expected a string in format principalType:principalName but got {stripped}"
        )
    return stripped


def invalid_config(message: str) -> NoReturn:
    """Raise the equivalent of Java's InvalidConfigurationException, before any request is sent."""
    raise ToolError("org.apache.kafka.common.errors.InvalidConfigurationException", message)


def parse_integer(text: str, bits: int = 32) -> int:
    """Parse a number like Java's Integer.parseInt. Raises ToolError with Java's message."""
    limit = 1 << (bits - 1)
    if not re.fullmatch("[+-]?[0-9]+", text) or not -limit <= int(text) < limit:
        message = f'For input string: "{text}"'
        raise ToolError("java.lang.NumberFormatException", message)
    return int(text)


def connect(
    options: Options,
    *,
    server: str = "bootstrap-server",
    config: str = "command-config",
    name: str = "AdminClient",
    failure: str | None = _NO_ADMIN_CLIENT,
    settings: ClientSettings | None = None,
) -> Client:
    """Return the client for `--bootstrap-server`, with the settings of `--command-config`.

    Each failed attempt to reach a broker prints a warning on standard error. As in Kafka, the tool
    retries until `default.api.timeout.ms`, and exits at once if a host name does not resolve.
    `failure` is the message of the KafkaException in which Kafka's client wraps an invalid setting,
    or None. Raises ToolError, UnsupportedSettingError.
    """
    path = options.value(config)
    properties = {} if path is None else read_properties(path)
    bootstrap_servers = options.value(server) or properties.get("bootstrap.servers", "")
    return connect_to(bootstrap_servers, properties, name=name, failure=failure, settings=settings)


@contextmanager
def admin_client(bootstrap_servers: str, properties: Mapping[str, str]) -> Iterator[Client]:
    """Connect like Kafka's admin client and close the client after the block.

    Raises ToolError, UnsupportedSettingError.
    """
    client = connect_to(bootstrap_servers, properties, name="AdminClient", failure=_NO_ADMIN_CLIENT)
    try:
        yield client
    finally:
        client.close()


def connect_to(
    bootstrap_servers: str,
    properties: Mapping[str, str],
    *,
    name: str,
    failure: str | None,
    settings: ClientSettings | None = None,
    group: str | None = None,
) -> Client:
    """Return a client like `connect`, for these bootstrap servers.

    Warnings name the `group`. Raises ToolError, UnsupportedSettingError.
    """
    try:
        settings = read_settings(properties, settings)
        _resolve(parse_addresses(bootstrap_servers))
    except UnsupportedSettingError:
        raise
    except ClientError as error:
        cause = ToolError("org.apache.kafka.common.config.ConfigException", str(error))
        if failure is None:
            raise cause from None
        raise ToolError("org.apache.kafka.common.KafkaException", failure) from cause
    label = client_label(name, settings.client_id, group)

    def warn(node_id: int, address: Address, error: ClientError) -> None:
        if isinstance(error, TlsError | SaslError):
            is_sasl = isinstance(error, SaslError)
            log(
                "ERROR",
                f"{label} Connection to node {node_id}"
                f" ({socket_address(address, is_looked_up=is_sasl)})"
                f" failed authentication due to: {error}",
                NETWORK_CLIENT,
            )
            if is_sasl and name == "AdminClient":
                log("WARN", f"{label} Fatal error during metadata update", ADMIN_METADATA)
                print_stack_trace(error)
            return
        log(
            "WARN",
            f"{label} Connection to node {node_id} ({socket_address(address)})"
            " could not be established. Node may not be available.",
            NETWORK_CLIENT,
        )
        if node_id < 0 and name in ("Producer", "Consumer", "ShareConsumer"):
            log(
                "WARN",
                f"{label} Bootstrap broker {address.host}:{address.port} (id: {node_id} rack: null"
                " isFenced: false) disconnected",
                NETWORK_CLIENT,
            )

    return Client(bootstrap_servers, settings, warn)


def client_label(name: str, client_id: str, group: str | None = None) -> str:
    """Return the prefix of a Java client's log lines."""
    return f"[{name} clientId={client_id}{f', groupId={group}' if group else ''}]"


def _resolve(addresses: Sequence[Address]) -> None:
    """Warn of each host that does not resolve.

    Raises ClientError if no bootstrap server is left.
    """
    count = 0
    for address in addresses:
        host, port = address
        try:
            socket.getaddrinfo(address.lookup_name(), port, type=socket.SOCK_STREAM)
        except OSError:
            log(
                "WARN",
                f"Couldn't resolve server {host}:{port} from bootstrap.servers as DNS resolution"
                f" failed for {host}",
                "org.apache.kafka.clients.ClientUtils",
            )
        else:
            count += 1
    if not count:
        message = "No resolvable bootstrap urls given in bootstrap.servers"
        raise ClientError(ErrorCode.INVALID_CONFIG, message)


def read_properties(path: str) -> dict[str, str]:
    """Read a properties file. Raises ToolError with the class and message of Java's exception."""
    from coordinator_server.config.properties import parse_properties

    try:
        with open(path, encoding="latin-1") as stream:
            return parse_properties(stream.read())
    except FileNotFoundError as error:
        raise ToolError("java.nio.file.NoSuchFileException", path) from error
    except OSError as error:
        raise ToolError("java.io.IOException", error.strerror or str(error)) from error
    except ValueError as error:
        raise ToolError("java.lang.IllegalArgumentException", str(error)) from error
