"""`coordinator-server ctl`: inspect and change a running broker by its control server.

The commands are the verbs of the table of routes, such as `ctl groups list` or `ctl topics create
NAME --partitions 3`. Answers are tables, whose cells are cut at a terminal unless --wide is given;
--json prints the answers as JSON. The exit code is 2 if an argument is wrong, also if only the
broker sees it (HTTP status 400, 413 or 431), and 1 if the request fails for another reason.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import NoneType
from typing import Any, Literal, get_args, get_origin, is_typeddict

from coordinator_server.config.config import parse_address
from coordinator_server.config.token_file import read_token
from coordinator_server.control.errors import (
    ControlError,
    natural_number,
    unique_names,
)
from coordinator_server.control.openapi import path_words
from coordinator_server.control.route import ControlRoute, Parameter
from coordinator_server.control.routes import PATH_PARAMETERS, ROUTES
from coordinator_server.control.schema import fields_of, shape_error, shape_named
from coordinator_server.testing.control import BrokerError, Control, quoted
from coordinator_server.tools.ctl_arguments import Once, Parser
from coordinator_server.tools.ctl_output import Printer, printable
from coordinator_server.tools.ctl_times import TIME_OPTIONS, Times
from coordinator_server.tools.passwords import read_password

ADDRESS_VARIABLE = "COORDINATOR_SERVER_HTTP"
DEFAULT_ADDRESS = "127.0.0.1:9080"

_PASSWORD = "password"
_BROWSE, _TAIL = "records list", "tail"
_PAUSE_SECONDS = 0.5
_RECONNECT_SECONDS = 10.0
"""How long `events` tries to reconnect before it ends with exit code 1."""

_TIMEOUT_SECONDS = 120.0

_SHOWN = 80
"""Limit of the characters of a wrong value in an error."""

_BETWEEN_CLUSTERS = 503
"""HTTP status while a snapshot is being restored."""

_WRONG_ARGUMENT = (400, 413, 431)
"""HTTP statuses of requests that cannot succeed as they are; their exit code is 2."""

_OTHER_NAMES = {
    "topics create": {"configs": "--set"},
    "topics alter": {"set": "--configs"},
    "settings alter": {"set": "--configs"},
}
"""Further options of fields, by verb: configs have the same options when created and altered."""

_DEFAULTS: dict[str, dict[str, object]] = {"records produce": {"format": "text"}}
"""Fields of a body that have another default here than in the API, by verb."""

_EXACT: dict[str, Any] = {"allow_abbrev": False}
"""Options must be written out: `--password` is not `--password-file`."""

_TIME = "TIME"
_BOOLEAN, _BOOLEANS = "true|false", {"true": True, "false": False}
_FLAG: dict[str, Any] = {"nargs": "?", "const": "true"}
"""Arguments of an option that means true if it has no value."""


def main(arguments: Sequence[str]) -> int:
    """Run with these arguments and return the exit code."""
    options = _parsed_arguments(arguments)
    try:
        control = _control(options)
        options.clock = Times(lambda: _now_ms(control))
        is_wide = options.wide or not sys.stdout.isatty()
        options.printer = Printer(options.clock, is_wide=is_wide)
        if options.route.content_type == "text/event-stream":
            return _follow(control, options)
        if options.is_tail:
            return _tail(control, options)
        answer = _ask(control, options)
    except BrokerError as error:
        print(f"coordinator-server ctl: {printable(str(error))}", file=sys.stderr)
        return 2 if error.status in _WRONG_ARGUMENT else 1
    except ValueError as error:
        print(f"coordinator-server ctl: {printable(str(error))}", file=sys.stderr)
        return 2
    if options.json:
        print(json.dumps(answer, indent=2))
    else:
        options.printer.show(answer)
    return 0


def _now_ms(control: Control) -> int:
    """Return the broker's time; the machine's time if the broker does not tell it."""
    try:
        return int(control.call("GET", "/cluster", timeout=_TIMEOUT_SECONDS)["now_ms"])
    except (BrokerError, KeyError):
        return time.time_ns() // 1_000_000


# --- command line ---------------------------------------------------------------------------------


def _parsed_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the parsed arguments; wrong ones end the process with exit code 2."""
    options, unknown = _parser(arguments).parse_known_args(arguments)
    if unknown:
        options.parser.refuse_unknown(unknown)
    return options


def _parser(arguments: Sequence[str]) -> Parser:
    """Return the parser of all verbs, with the options of the verb in these arguments.

    Options of all verbs would take a tenth of a second.
    """
    chosen = " ".join(arguments[:2])
    top = Parser(
        prog="coordinator-server ctl",
        description="Inspect and change a running broker by its control server (serve --http).",
    )
    commands = top.add_subparsers(dest="resource", required=True, metavar="COMMAND")
    resources: dict[str, Any] = {}
    for route in ROUTES:
        if not route.verb:
            continue
        resource, _, action = route.verb.partition(" ")
        if not action:
            parser = commands.add_parser(resource, help=route.meaning, **_EXACT)
            if resource == next(iter(arguments), None):
                _add_options(parser, route)
            continue
        if resource not in resources:
            resource_parser = commands.add_parser(resource, help=f"see ctl {resource} --help")
            resources[resource] = resource_parser.add_subparsers(
                dest="action", required=True, metavar="VERB"
            )
        parser = resources[resource].add_parser(action, help=route.meaning, **_EXACT)
        if route.verb == chosen:
            _add_options(parser, route)
        if route.verb == _BROWSE:
            help_text = "print new records as they come"
            parser = resources[resource].add_parser(_TAIL, help=help_text, **_EXACT)
            if chosen == f"{resource} {_TAIL}":
                _add_options(parser, route)
                parser.set_defaults(is_tail=True)
    return top


def _add_options(parser: argparse.ArgumentParser, route: ControlRoute) -> None:
    parser.set_defaults(route=route, is_tail=False, parser=parser)
    address = os.environ.get(ADDRESS_VARIABLE, DEFAULT_ADDRESS)
    parser.add_argument(
        "--http",
        action=Once,
        metavar="HOST:PORT",
        default=address,
        help=f"address of the control server ({ADDRESS_VARIABLE}; {DEFAULT_ADDRESS})",
    )
    parser.set_defaults(http_token_file=None, http_user=None)
    if not route.is_public:
        access = parser.add_mutually_exclusive_group()
        access.add_argument(
            "--http-token-file", action=Once, metavar="FILE", help="file with the server's token"
        )
        access.add_argument(
            "--http-user",
            action=Once,
            metavar="NAME",
            help="user of the broker to log in as (serve --http-login)",
        )
    parser.add_argument(
        "--password-file",
        action=Once,
        metavar="FILE",
        help="file whose first line is the user's password (default: the terminal, or the first "
        "line of standard input)",
    )
    parser.add_argument("--json", action="store_true", help="print the answer as JSON")
    parser.add_argument(
        "--wide",
        action="store_true",
        help="print cells of tables whole; the default if the output is not a terminal",
    )
    for word in path_words(route):
        parser.add_argument(f"path_{word}", metavar=word, help=PATH_PARAMETERS[word][1])
    for parameter in route.query:
        is_flag = parameter.kind == "boolean"
        parser.add_argument(
            *_options(parameter.name),
            dest=parameter.name,
            action=Once,
            required=parameter.is_required,
            metavar=_BOOLEAN if is_flag else _metavar(parameter),
            help=parameter.meaning,
            **(_FLAG if is_flag else {}),
        )
    if route.body:
        help_text = "JSON of the whole body, - for stdin"
        parser.add_argument("--body", action=Once, metavar="FILE", help=help_text)
        defaults = _DEFAULTS.get(route.verb, {})
        for name, (kind, meaning, _) in fields_of(shape_named(route.body)).items():
            if name != _PASSWORD:  # other users could read a password among the arguments
                default = f" (default of ctl: {defaults[name]})" if name in defaults else ""
                names = [*_options(name), *_other_names(route, name)]
                _add_field(parser, name, names, kind, meaning + default)


def _metavar(parameter: Parameter) -> str:
    if parameter.name in TIME_OPTIONS:
        return _TIME
    if parameter.choices:
        return "|".join(parameter.choices)
    return parameter.metavar or parameter.kind.upper()


def _other_names(route: ControlRoute, field: str) -> list[str]:
    name = _OTHER_NAMES.get(route.verb, {}).get(field)
    return [] if name is None else [name]


def _add_field(
    parser: argparse.ArgumentParser, name: str, options: Sequence[str], kind: Any, meaning: str
) -> None:
    kind = _without_null(kind)
    metavar: str = "JSON"
    action: Any = Once
    if get_origin(kind) is dict:
        metavar, action = "NAME=VALUE", "append"
    elif get_origin(kind) is list and get_args(kind)[0] in (str, int):
        metavar, action = "VALUE", "append"
    elif get_origin(kind) is Literal:
        metavar = "|".join(get_args(kind))
    elif name in TIME_OPTIONS:
        metavar = _TIME
    elif kind in (str, int, float, bool):
        metavar = _BOOLEAN if kind is bool else "VALUE"
    parser.add_argument(
        *options,
        dest=f"body_{name}",
        action=action,
        metavar=metavar,
        help=meaning,
        **(_FLAG if kind is bool else {}),
    )


def _option(name: str) -> str:
    """Return the option of a parameter or field."""
    return f"--{name.replace('_', '-')}"


def _options(name: str) -> list[str]:
    """Return the options of a parameter or field; those of times also without the unit."""
    names = [name, name.removesuffix("_ms")] if name in TIME_OPTIONS else [name]
    return list(map(_option, names))


def _without_null(kind: Any) -> Any:
    arguments = [arg for arg in get_args(kind) if arg is not NoneType]
    is_optional = NoneType in get_args(kind) and len(arguments) == 1
    return arguments[0] if is_optional else kind


# --- request --------------------------------------------------------------------------------------


def _control(options: argparse.Namespace) -> Control:
    """Return the client. Raises ValueError."""
    host, port = parse_address(options.http)
    token = None if options.http_token_file is None else read_token(options.http_token_file)
    login = None
    if options.http_user is not None:
        login = options.http_user, _password(options.http_user, options)
    elif options.password_file is not None and not options.route.is_public:
        raise ValueError("--password-file needs --http-user")
    return Control((host or "127.0.0.1", port), token, login=login)


def _password(user: str, options: argparse.Namespace) -> str:
    try:
        return read_password(user, options.password_file)
    except OSError as error:
        raise ValueError(f"--password-file {options.password_file}: {error.strerror}") from error


def _target(options: argparse.Namespace) -> tuple[str, dict[str, object]]:
    """Return the path and the query of a request. Raises ValueError."""
    route: ControlRoute = options.route
    for word in path_words(route):
        text, (kind, meaning) = getattr(options, f"path_{word}"), PATH_PARAMETERS[word]
        if not text:
            raise ValueError(f"{word} is empty: {meaning} is needed")
        if kind == "integer" and natural_number(text) is None:
            raise ValueError(f"{word} is {text[:_SHOWN]!r}, not a number: {meaning}")
    words = [
        quoted(getattr(options, f"path_{word}")) if word.isupper() else word
        for word in route.path.strip("/").split("/")
    ]
    query = {parameter.name: _parameter(parameter, options) for parameter in route.query}
    starts = ("position", "offset", "timestamp_ms")
    if options.is_tail and all(query[name] is None for name in starts):
        query["position"] = "latest"
    return "/" + "/".join(words), query


def _parameter(parameter: Parameter, options: argparse.Namespace) -> object:
    """Return the value of a query parameter; None if it is not given. Raises ValueError."""
    text = getattr(options, parameter.name)
    if text is None:
        return None
    if parameter.name in TIME_OPTIONS:
        return options.clock.parse(_option(parameter.name), str(text))
    if parameter.kind == "broker" and natural_number(text) is None:
        raise ValueError(f"{_option(parameter.name)} is {text[:80]!r}, not the id of a broker")
    try:
        parameter.parse(text)
    except ControlError as error:
        raise ValueError(f"{_option(parameter.name)}: {error}") from error
    return text


def _ask(control: Control, options: argparse.Namespace) -> dict[str, Any]:
    path, query = _target(options)
    body = _body(options) if options.route.body else None
    return control.call(options.route.method, path, query, body, timeout=_TIMEOUT_SECONDS)


def _body(options: argparse.Namespace) -> dict[str, object]:
    """Return the body from its options. Raises ValueError."""
    given_body = {} if options.body is None else _read_body(options)
    body = {**_DEFAULTS.get(options.route.verb, {}), **given_body}
    fields = fields_of(shape_named(options.route.body))
    for name, (kind, _, _) in fields.items():
        given = getattr(options, f"body_{name}", None)
        if given is not None and name in given_body:
            raise ValueError(f"{_option(name)} and {name} in --body {options.body} are both given")
        if given is not None and name in TIME_OPTIONS:
            body[name] = options.clock.parse(_option(name), given)
        elif given is not None:
            body[name] = _value(_option(name), _without_null(kind), given)
    if _PASSWORD in fields and _PASSWORD not in body:
        body[_PASSWORD] = _password(str(body.get("user", "the user")), options)
    for name, (_, meaning, is_required) in fields.items():
        if is_required and name not in body:
            raise ValueError(f"{_option(name)} is missing: {meaning}")
    error = shape_error(body, shape_named(options.route.body))
    if error is not None:
        raise ValueError(error)
    return body


def _read_body(options: argparse.Namespace) -> dict[str, object]:
    path = options.body
    try:
        body = _read_json(sys.stdin.read() if path == "-" else Path(path).read_text())
    except ControlError as error:
        raise ValueError(f"--body {path}: {error}") from error
    except OSError as error:
        raise ValueError(f"--body {path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise ValueError(f"--body {path} is not JSON: {error}") from error
    if not isinstance(body, dict):
        raise ValueError(f"--body {path} is not a JSON object, but {json.dumps(body)[:_SHOWN]}")
    return body


def _read_json(text: str) -> Any:
    """Return the value of a JSON text. Raises ValueError, and ControlError for a repeated name."""
    return json.loads(text, object_pairs_hook=unique_names)


def _value(option: str, kind: Any, given: Any) -> object:
    """Return the JSON value of an option. Raises ValueError with the name of the option."""
    if get_origin(kind) is dict:
        pairs = [pair.partition("=") for pair in given]
        if any(not separator for _, separator, _ in pairs):
            raise ValueError(f"{option}: NAME=VALUE is needed")
        kind = get_args(kind)[1]
        values: dict[str, str] = {}
        for name, _, text in pairs:
            if name in values:
                raise ValueError(f"{option} {name} is given twice: {values[name]} and {text}")
            values[name] = text
        return {name: _scalar(f"{option} {name}", kind, text) for name, text in values.items()}
    if isinstance(given, list):
        return [_scalar(option, get_args(kind)[0], text) for text in given]
    if get_origin(kind) is list or is_typeddict(kind):
        return _parsed(option, _read_json, given, "JSON")
    return _scalar(option, kind, given)


def _scalar(option: str, kind: Any, text: str) -> object:
    if kind is int:
        return _parsed(option, int, text, "an integer")
    if kind is float:
        return _parsed(option, float, text, "a number")
    if kind is bool:
        return _parsed(option, _BOOLEANS.__getitem__, text, "true or false")
    return text


def _parsed(option: str, parse: Callable[[str], object], text: str, what: str) -> object:
    try:
        return parse(text)
    except ControlError as error:
        raise ValueError(f"{option}: {error}") from error
    except (ValueError, KeyError, RecursionError) as error:
        shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
        raise ValueError(f"{option} is {shown}, which is not {what}") from error


# --- output ---------------------------------------------------------------------------------------


def _follow(control: Control, options: argparse.Namespace) -> int:
    """Print events until Ctrl-C. Raises BrokerError.

    If the stream ends, because the broker restores a snapshot or restarts, it is resumed after the
    last event. A broker that cannot be reached for _RECONNECT_SECONDS is an error.
    """
    path, query = _target(options)
    connected_s = None
    while True:
        try:
            for event in control.events(path, query):
                connected_s, query["last_event_id"] = time.monotonic(), event["id"]
                if options.json:
                    print(json.dumps(event), flush=True)
                else:
                    options.printer.show_event(event)
            connected_s = time.monotonic()
            text = "the broker has ended the stream of events: reconnecting"
            print(f"coordinator-server ctl: {text}", file=sys.stderr, flush=True)
        except BrokerError as error:
            if error.status not in (0, _BETWEEN_CLUSTERS) or connected_s is None:
                raise
            if time.monotonic() - connected_s > _RECONNECT_SECONDS:
                raise
        time.sleep(_PAUSE_SECONDS)


def _tail(control: Control, options: argparse.Namespace) -> int:
    """Print new records until Ctrl-C."""
    while True:
        answer = _ask(control, options)
        options.after = answer["tail"]
        for record in answer["records"]:
            if options.json:
                print(json.dumps(record), flush=True)
            else:
                options.printer.show_record(record)
        if not answer["records"]:
            time.sleep(_PAUSE_SECONDS)
