"""The command line: `serve`, `settings`, `pipeline`, `protocol`, the tools, Kafka's scripts.

Exit codes: 0 after a clean stop, 1 if the broker cannot start, 2 for a wrong argument or a bad
value of a setting, with one line on standard error.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import os
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from coordinator_server import __version__
from coordinator_server.config.config import (
    Config,
    ConfigError,
    format_address,
    parse_address,
    settings_in_arguments,
)
from coordinator_server.kafka_tools.script_names import BY_COMMAND, SCRIPTS, run_script
from coordinator_server.tools import TOOLS, installed_tools, run_tool

if TYPE_CHECKING:
    from coordinator_server.registry.address import RegistryAddress
    from coordinator_server.tracing.options import TracingOptions

FAULTS_VARIABLE = "COORDINATOR_SERVER_FAULTS"
_LOGIN_CONFIG = "java.security.auth.login.config"
_COMMANDS = ("serve", "settings", "pipeline", "protocol", *TOOLS, *BY_COMMAND)


def main(
    arguments: Sequence[str] | None = None, *, origins: Mapping[str, str] | None = None
) -> int:
    """Run one command and return its exit code.

    `origins` maps derived settings to the text that the user wrote, for error messages.
    """
    argv = list(sys.argv[1:] if arguments is None else arguments)
    if argv[:1] == ["protocol"]:
        return _protocol(argv[1:])
    if argv[:1] == ["pipeline"] and importlib.util.find_spec("pipeline") is not None:
        return _pipeline(argv[1:])
    if argv and argv[0] in TOOLS:
        return run_tool(argv[0], argv[1:])
    if argv and argv[0] in BY_COMMAND:
        return run_script(BY_COMMAND[argv[0]], argv[1:])
    if argv and argv[0][:1] != "-" and not is_command(argv[0]):
        parser().error(_describe_unknown_command(argv[0]))
    options = parser().parse_args(argv)
    if options.command == "settings":
        from coordinator_server.config.settings_page import describe

        print(describe(), end="")
        return 0
    try:
        return _serve(options)
    except ConfigError as error:
        derived = [
            f"{name} is {text}" for name, text in (origins or {}).items() if name in str(error)
        ]
        hint = f" ({', '.join(derived)})" if derived else ""
        print(f"coordinator-server: {error}{hint}", file=sys.stderr)
        return 2


def load_config(options: argparse.Namespace) -> Config:
    """Return the settings of `serve`, from the file, the environment and the arguments.

    The environment overrides the file; --set and its short flags override both. Raises ConfigError.
    """
    file: dict[str, str] = {}
    if options.config is not None:
        from coordinator_server.config.properties import read_properties

        try:
            file = read_properties(options.config)
        except ValueError as error:
            raise ConfigError(f"--config {options.config}: {error}") from error
    overrides = settings_in_arguments(options.set)
    if options.listener is not None:
        overrides["listeners"] = _listeners(options.listener, options.dev_security is not None)
    if options.data_dir is not None:
        overrides["log.dirs"] = options.data_dir
    if options.dev_security is not None:
        overrides["dev.security.dir"] = options.dev_security
    read = partial(
        Config,
        environment=os.environ,
        overrides=overrides,
        ephemeral=options.ephemeral,
        strict=options.strict,
        cluster_id=options.cluster_id,
    )
    config = read(file=file)
    if config.optional_text("dev.security.dir") is not None:
        from coordinator_server.security import dev_security

        file = {**dev_security.prepare(config), **file}
        config = read(file=file)
        dev_security.check(config)
    if _LOGIN_CONFIG in os.environ.get("KAFKA_OPTS", ""):
        from coordinator_server.security.sasl import jaas_file

        options_of_jvm = jaas_file.parse_jvm_options(os.environ["KAFKA_OPTS"])
        if settings := jaas_file.settings_of_jaas_file(config, options_of_jvm):
            config = read(file={**settings, **file})
            config.ignored.remove("KAFKA_OPTS")
            if options_of_jvm.others:
                config.ignored.append(f"KAFKA_OPTS ({' '.join(options_of_jvm.others)})")
    return config


def _listeners(texts: Sequence[str], is_secured: bool) -> str:
    """Return the setting `listeners` for HOST:PORT and NAME://HOST:PORT. Raises ConfigError."""
    listeners = []
    for listener in ",".join(texts).split(","):
        name, separator, address = listener.strip().rpartition("://")
        if not separator:
            name = "SASL_SSL" if is_secured else "PLAINTEXT"
        try:
            parse_address(address)
        except ValueError as error:
            raise ConfigError(f"--listener: {error}") from None
        if not name:
            raise ConfigError(f"--listener: {listener!r} is not [NAME://]HOST:PORT")
        listeners.append(f"{name}://{address}")
    return ",".join(listeners)


def parser() -> argparse.ArgumentParser:
    """Return the argument parser of all installed commands."""
    top = argparse.ArgumentParser(
        prog="coordinator-server", description="A Kafka broker without a JVM, for one machine."
    )
    top.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_serve_options(commands.add_parser("serve", help="run the broker"))
    commands.add_parser("settings", help="print the table of settings as Markdown")
    if importlib.util.find_spec("pipeline") is not None:
        # The Docker image lacks the package `pipeline`.
        commands.add_parser(
            "pipeline", help="compute tables of lag, health and rebalances from an offsets log"
        )
    commands.add_parser("protocol", help="show the declaration of an API, or decode a hex dump")
    for tool in installed_tools():
        commands.add_parser(tool.name, help=tool.help)
    for script in SCRIPTS:
        commands.add_parser(script.command, help=f"{script.help} (Kafka's {script.name}.sh)")
    return top


def _add_serve_options(serve: argparse.ArgumentParser) -> None:
    serve.add_argument(
        "--listener",
        action="append",
        metavar="[NAME://]HOST:PORT",
        help="address to listen on; port 0 selects a free port (repeatable)",
    )
    data = serve.add_mutually_exclusive_group()
    data.add_argument("--data-dir", metavar="DIR", help="data directory (log.dirs)")
    data.add_argument(
        "--ephemeral",
        action="store_true",
        help=("store the data in a temporary directory, which is deleted when the broker stops"),
    )
    serve.add_argument(
        "--dev-security",
        metavar="DIR",
        help=(
            "enable TLS, users and ACLs; certificates, passwords and client settings are "
            "written to DIR"
        ),
    )
    serve.add_argument(
        "--config",
        metavar="FILE",
        help="properties file with settings, like Kafka's server.properties",
    )
    serve.add_argument(
        "--set",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="set one setting (repeatable); overrides --config and the environment",
    )
    serve.add_argument(
        "--strict",
        action="store_true",
        help=(
            "fail for a setting that neither this broker nor Kafka knows, instead of "
            "logging a warning"
        ),
    )
    serve.add_argument(
        "--cluster-id", metavar="ID", help="cluster id of a new data directory (default: random)"
    )
    serve.add_argument(
        "--ready-message", metavar="TEXT", help="additional line to print when the broker is ready"
    )
    _add_process_options(serve)


def _add_process_options(serve: argparse.ArgumentParser) -> None:
    """Add the options of `serve` for the control server, the parent process and the log."""
    serve.add_argument(
        "--http",
        metavar="HOST:PORT",
        help="address of the control server (default: no control server)",
    )
    serve.add_argument(
        "--http-token-file",
        metavar="FILE",
        help=(
            "file with the token that requests to the control server need; required unless "
            "the control server listens on a loopback address"
        ),
    )
    serve.add_argument(
        "--http-login",
        action="store_true",
        help="requests to the control server log in as users of the broker, whose ACLs apply",
    )
    serve.add_argument(
        "--http-read-only", action="store_true", help="the control server changes nothing"
    )
    serve.add_argument(
        "--http-registry",
        metavar="URL",
        help=(
            "schema registry whose schemas decode the records that the control server shows; "
            "needs the extra coordinator-server[registry]"
        ),
    )
    serve.add_argument(
        "--http-registry-login-file",
        metavar="FILE",
        help="file with USER:PASSWORD for the schema registry",
    )
    _add_tracing_options(serve)
    _add_fault_option(serve)
    serve.add_argument(
        "--watch-stdin",
        action="store_true",
        help=(
            "stop the broker at the end of standard input, for example when the parent process ends"
        ),
    )
    serve.add_argument(
        "--log-format",
        choices=("console", "json"),
        default="console",
        help="format of the log on standard error (default: console)",
    )
    serve.add_argument(
        "--log-level",
        choices=("debug", "info", "warning", "error"),
        default="info",
        help="lowest level of events to log (default: info)",
    )


def _add_fault_option(serve: argparse.ArgumentParser) -> None:
    """Add the option of `serve` for fault rules."""
    serve.add_argument(
        "--faults",
        metavar="FILE",
        default=os.environ.get(FAULTS_VARIABLE),
        help=(
            f"fault rules in a .yaml, .json or .toml file, see docs/faults.md ({FAULTS_VARIABLE})"
        ),
    )


def _add_tracing_options(serve: argparse.ArgumentParser) -> None:
    """Add the options of `serve` for OpenTelemetry."""
    serve.add_argument(
        "--otel",
        nargs="?",
        const="",
        metavar="URL",
        help=(
            "send traces and logs by OTLP over HTTP to this URL (default: the variable "
            "OTEL_EXPORTER_OTLP_ENDPOINT); needs the extra coordinator-server[otel]"
        ),
    )
    serve.add_argument(
        "--otel-ratio",
        type=float,
        metavar="RATIO",
        help="part of the requests that --otel traces, from 0 to 1 (default: 1)",
    )


def is_command(name: str) -> bool:
    """Return whether `name` is a command, or one of the options --version, --help and -h."""
    if name[:1] == "-":
        return name in ("--version", "--help", "-h")
    return name in _COMMANDS


def _describe_unknown_command(name: str) -> str:
    """Return the error for an unknown command, with the most similar command or Kafka script."""
    from difflib import get_close_matches  # imported here, because difflib is needed only for typos

    by_script = {script.name: script.command for script in SCRIPTS}
    script_name = name.removesuffix(".sh")
    similar = get_close_matches(script_name, (*_COMMANDS, *by_script), n=1, cutoff=0.7)
    if not similar:
        return f"{name}: there is no such command, see coordinator-server --help"
    return (
        f"{name}: there is no such command, did you mean {by_script.get(similar[0], similar[0])}?"
    )


def _serve(options: argparse.Namespace) -> int:
    config = load_config(options)
    control = control_token = control_options = None
    if options.http is None:
        _refuse_http_options(options)
    else:
        from coordinator_server.control.state import ControlOptions

        control_options = ControlOptions(
            is_read_only=options.http_read_only,
            requires_login=options.http_login,
            registry=_registry(options.http_registry, options.http_registry_login_file),
        )
        try:
            control = parse_address(options.http)
        except ValueError as error:
            raise ConfigError(f"--http: {error}") from error
        control_token = _control_token(
            options.http_token_file, control, has_login=options.http_login
        )
    tracing_options = _tracing(options.otel, options.otel_ratio)
    faults = _faults(options.faults)
    # Imports create many objects but no garbage; `run` enables the collector again.
    gc.disable()
    from coordinator_server.events.log import LOG
    from coordinator_server.events.vocabulary import LEVELS
    from coordinator_server.net.acceptor import StartError
    from coordinator_server.server import run

    LOG.configure(options.log_format, LEVELS[options.log_level])
    if (directory := config.optional_text("dev.security.dir")) is not None:
        print(f"security: users and settings of clients are in {directory}", flush=True)
    try:
        return run(
            config,
            control,
            control_token=control_token,
            control_options=control_options,
            faults=faults,
            tracing_options=tracing_options,
            watch_stdin=options.watch_stdin,
            ready_message=options.ready_message,
        )
    except StartError as error:
        print(f"coordinator-server: {error}", file=sys.stderr)
        return 1


def _tracing(url: str | None, ratio: float | None) -> TracingOptions | None:
    """Return the options for OpenTelemetry, None without --otel. Raises ConfigError."""
    if url is None:
        if ratio is not None:
            raise ConfigError(f"--otel-ratio={ratio:g}: --otel is missing")
        return None
    from coordinator_server.tracing.options import missing_packages, read_options

    if missing := missing_packages():
        packages = " and ".join(missing)
        raise ConfigError(f"--otel needs {packages}: pip install 'coordinator-server[otel]'")
    try:
        return read_options(url, 1 if ratio is None else ratio)
    except ValueError as error:
        raise ConfigError(f"--otel: {error}") from error


def _faults(path: str | None) -> list[dict[str, Any]]:
    """Return the fault rules in a file. Raises ConfigError."""
    if not path:
        return []
    from coordinator_server.faults.file import read_rules
    from coordinator_server.faults.rule import FaultError

    try:
        return read_rules(path)
    except FaultError as error:
        raise ConfigError(f"--faults: {error}") from error


def _registry(url: str | None, login_file: str | None) -> RegistryAddress | None:
    """Return the address of the schema registry, None without a `url`. Raises ConfigError."""
    if url is None:
        if login_file is not None:
            raise ConfigError("--http-registry-login-file: --http-registry is missing")
        return None
    from coordinator_server.control.registry_option import missing_packages, read_address

    if missing := missing_packages():
        packages = " and ".join(missing)
        raise ConfigError(
            f"--http-registry needs {packages}: pip install 'coordinator-server[registry]'"
        )
    try:
        return read_address(url, login_file)
    except ValueError as error:
        raise ConfigError(f"--http-registry: {error}") from error


def _refuse_http_options(options: argparse.Namespace) -> None:
    """Raise ConfigError for an option of the control server without --http."""
    for name in (
        "http_token_file",
        "http_login",
        "http_read_only",
        "http_registry",
        "http_registry_login_file",
    ):
        if getattr(options, name):
            option = f"--{name.replace('_', '-')}"
            raise ConfigError(f"{option} needs --http HOST:PORT, the control server")


def _control_token(path: str | None, address: tuple[str, int], *, has_login: bool) -> str | None:
    """Return the token of the control server, or None without a token file.

    Raises ConfigError if the file is invalid, or if the address is not loopback and neither a
    token nor a login is required.
    """
    if path is not None:
        from coordinator_server.config.token_file import read_token

        try:
            return read_token(path)
        except ValueError as error:
            raise ConfigError(f"--http-token-file: {error}") from error
    from coordinator_server.config.hosts import is_loopback

    host, port = address
    if host and not is_loopback(host) and not has_login:
        raise ConfigError(
            f"--http: {format_address(host, port)} is no loopback address: whoever reaches it "
            "commands the broker, so it needs a token, see --http-token-file, or --http-login"
        )
    return None


def _pipeline(arguments: Sequence[str]) -> int:
    """Run the pipeline's command line. Imports it by name: the server must not depend on it."""
    from importlib import import_module

    code: int = import_module("pipeline.command").main(arguments)
    return code


def _protocol(arguments: Sequence[str]) -> int:
    """Run `protocol show ...` or `protocol dump ...`, the tools of the protocol package."""
    prog = "coordinator-server protocol"
    tools = argparse.ArgumentParser(
        prog=prog, description="Show the declaration of a message, or decode bytes."
    )
    commands = tools.add_subparsers(dest="tool", required=True, metavar="TOOL")
    commands.add_parser("show", help="show the declaration of an API", add_help=False)
    commands.add_parser("dump", help="decode a hex dump of frames or messages", add_help=False)
    name = tools.parse_known_args(arguments[:1])[0].tool
    if name == "show":
        from protocol.show import main as tool
    else:
        from protocol.dump import main as tool
    return tool(list(arguments[1:]), f"{prog} {name}")
