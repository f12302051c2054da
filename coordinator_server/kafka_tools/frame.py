"""What every tool is run by: options, `--help`, the client, and errors as Kafka's tools print them.

Stack traces of Java are left out; the lines around them are kept, as scripts look for the names of
the exceptions in them.
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
    "REQUIRED: the brokers to connect to first.",
    argument="server to connect to",
)
COMMAND_CONFIG = Option(
    "command-config",
    "A properties file with settings of the client.",
    argument="command config property file",
)


class ToolError(Exception):
    """What ends a tool as an exception of Java does: its class and its message."""

    def __init__(self, java_class: str, message: str) -> None:
        super().__init__(message)
        self.java_class = java_class


class NotHereError(Exception):
    """Something of Kafka's tool that is not here; the message says what to use instead."""


NETWORK_CLIENT = "org.apache.kafka.clients.NetworkClient"
"""The logger of most warnings of Kafka's clients."""

_NO_ADMIN_CLIENT = "Failed to create new KafkaAdminClient"
ADMIN_METADATA = "org.apache.kafka.clients.admin.internals.AdminMetadataManager"

Failure = OptionsError | ToolError | ClientError
FAILURES = (OptionsError, ToolError, ClientError)
"""What ends a tool as an exception of Java does."""


EXECUTION = "java.util.concurrent.ExecutionException"
"""What a Future of Java wraps an exception in."""


def print_with_usage(error: Exception, options: Sequence[Option]) -> int:
    """Print what is wrong with the arguments, and the usage; gives the exit code."""
    print(error, file=sys.stderr)
    sys.stderr.write(usage((*options, HELP, VERSION)))
    return 1


def print_uncaught(error: Failure) -> int:
    """Print an error as a tool does whose `main` prints what it catches; gives the exit code."""
    print(error, file=sys.stderr)
    print_stack_trace(error)
    print(file=sys.stderr)
    return 1


def print_thrown_by_main(error: Failure) -> int:
    """Print an error that Java's `main` does not catch; return the exit code."""
    print_stack_trace(error, 'Exception in thread "main" ')
    return 1


def print_stack_trace(error: Failure, prefix: str = "", stream: TextIO | None = None) -> None:
    """Print an exception and its causes as Throwable.printStackTrace does, without the frames.

    Without a stream, to standard error.
    """
    cause: BaseException | None = error
    while isinstance(cause, FAILURES):
        text = str(cause)
        line = f"{prefix}{java_class(cause)}{': ' if text else ''}{text}"
        print(line, file=stream or sys.stderr)
        cause, prefix = cause.__cause__, "Caused by: "


def raise_wrapped(error: Failure, *java_classes: str) -> NoReturn:
    """Raise an exception inside others, the innermost first, as Java's `new X(cause)` words it."""
    outer = error
    for name in java_classes:
        inner, outer = outer, ToolError(name, f"{java_class(outer)}: {outer}")
        outer.__cause__ = inner
    raise outer


class ToolSpec(NamedTuple):
    """One tool: its official name without `.sh`, its options, its work, and a line for `--help`.

    `failed` prints an exception and gives the exit code, where a tool has its own way;
    `without_arguments` is what is above the usage then, where that is not the purpose;
    `help_is_output` says that `--help` is no mistake: standard output, exit code 0; `before` is
    called before the options are read.
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
    """Run a tool; returns its exit code."""
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
    """The full name of the Java exception for what a tool raises."""
    if isinstance(error, TlsError):
        return "org.apache.kafka.common.errors.SslAuthenticationException"
    return exception_name(error.code) if isinstance(error, ClientError) else error.java_class


def illegal_argument(message: str) -> NoReturn:
    """Raise what is an IllegalArgumentException in Java."""
    raise ToolError("java.lang.IllegalArgumentException", message)


def parse_principal(text: str) -> str:
    """A principal as people write it: its type, a colon, its name. Raises ToolError."""
    stripped = text.strip()
    if ":" not in stripped:
        illegal_argument(
            f"expected a string in format principalType:principalName but got {stripped}"
        )
    return stripped


def invalid_config(message: str) -> NoReturn:
    """Raise what is an InvalidConfigurationException in Java, before a broker is asked."""
    raise ToolError("org.apache.kafka.common.errors.InvalidConfigurationException", message)


def parse_integer(text: str, bits: int = 32) -> int:
    """A number as Java's Integer.parseInt reads it. Raises ToolError with its message."""
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
    """The client for `--bootstrap-server`, with the settings of `--command-config`.

    A broker that is not there costs a warning on standard error at each attempt, as in Kafka, whose
    tools wait for it until `default.api.timeout.ms` is over; a name that does not resolve ends the
    tool at once, as there. `failure` is what Kafka's client wraps a wrong setting in, if anything.
    Raises ToolError, UnsupportedSettingError.
    """
    path = options.value(config)
    properties = {} if path is None else read_properties(path)
    bootstrap_servers = options.value(server) or properties.get("bootstrap.servers", "")
    return connect_to(bootstrap_servers, properties, name=name, failure=failure, settings=settings)


@contextmanager
def admin_client(bootstrap_servers: str, properties: Mapping[str, str]) -> Iterator[Client]:
    """Connect as Kafka's admin client does, and close the client at the end.

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
    """The client for bootstrap servers, as `connect` makes it; `group` is named in its warnings.

    Raises ToolError, UnsupportedSettingError.
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
    """The prefix of the log lines of a client of Java."""
    return f"[{name} clientId={client_id}{f', groupId={group}' if group else ''}]"


def _resolve(addresses: Sequence[Address]) -> None:
    """Warn of each host that has no address; ClientError when no bootstrap server is left."""
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
    """A properties file. Raises ToolError with the class and words of Java's exception."""
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
