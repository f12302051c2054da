"""`coordinator-server ctl`: inspect and change a running broker by its control server.

The commands are the verbs of the table of routes, such as `ctl groups list` or `ctl topics create
NAME --partitions 3`. Answers are tables; --json prints them as JSON. The exit code is 1 if a
request fails, 2 for wrong arguments.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import NoneType
from typing import Any, Literal, get_args, get_origin, is_typeddict

from coordinator_server.config.config import parse_address
from coordinator_server.config.token_file import read_token
from coordinator_server.control.openapi import path_words
from coordinator_server.control.route import ControlRoute, Parameter
from coordinator_server.control.routes import PATH_PARAMETERS, ROUTES
from coordinator_server.control.schema import fields_of, shape_named
from coordinator_server.testing.control import BrokerError, Control, quoted
from coordinator_server.tools.passwords import read_password

ADDRESS_VARIABLE = "COORDINATOR_SERVER_HTTP"
DEFAULT_ADDRESS = "127.0.0.1:9080"

_PASSWORD = "password"
_BROWSE, _TAIL = "records list", "tail"
_PAUSE_SECONDS = 0.5
_TIMEOUT_SECONDS = 120.0
_MOST_CHARACTERS = 80

_EXACT: dict[str, Any] = {"allow_abbrev": False}
"""Options must be written out: `--password` is not `--password-file`."""

_BOOLEAN, _BOOLEANS = "true|false", {"true": True, "false": False}
_FLAG: dict[str, Any] = {"nargs": "?", "const": "true"}
"""Arguments of an option that means true if it has no value."""


def main(arguments: Sequence[str]) -> int:
    """Run with these arguments and return the exit code."""
    options = _parser().parse_args(arguments)
    try:
        control = _control(options)
        if options.route.content_type == "text/event-stream":
            return _follow(control, options)
        if options.is_tail:
            return _tail(control, options)
        return _show(_ask(control, options), options)
    except BrokerError as error:
        print(f"coordinator-server ctl: {_printable(str(error))}", file=sys.stderr)
        return 1
    except ValueError as error:
        print(f"coordinator-server ctl: {error}", file=sys.stderr)
        return 2


# --- command line ---------------------------------------------------------------------------------


def _parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
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
            _add_options(commands.add_parser(resource, help=route.meaning, **_EXACT), route)
            continue
        if resource not in resources:
            resource_parser = commands.add_parser(resource, help=f"see ctl {resource} --help")
            resources[resource] = resource_parser.add_subparsers(
                dest="action", required=True, metavar="VERB"
            )
        _add_options(resources[resource].add_parser(action, help=route.meaning, **_EXACT), route)
        if route.verb == _BROWSE:
            help_text = "print new records as they come"
            parser = resources[resource].add_parser(_TAIL, help=help_text, **_EXACT)
            _add_options(parser, route)
            parser.set_defaults(is_tail=True, position="latest")
    return top


def _add_options(parser: argparse.ArgumentParser, route: ControlRoute) -> None:
    parser.set_defaults(route=route, is_tail=False)
    address = os.environ.get(ADDRESS_VARIABLE, DEFAULT_ADDRESS)
    parser.add_argument(
        "--http",
        metavar="HOST:PORT",
        default=address,
        help=f"address of the control server ({ADDRESS_VARIABLE}; {DEFAULT_ADDRESS})",
    )
    access = parser.add_mutually_exclusive_group()
    access.add_argument("--http-token-file", metavar="FILE", help="file with the server's token")
    access.add_argument(
        "--http-user", metavar="NAME", help="user of the broker to log in as (serve --http-login)"
    )
    parser.add_argument(
        "--password-file",
        metavar="FILE",
        help="file whose first line is the user's password (default: the terminal, or the first "
        "line of standard input)",
    )
    parser.add_argument("--json", action="store_true", help="print the answer as JSON")
    for word in path_words(route):
        parser.add_argument(f"path_{word}", metavar=word, help=PATH_PARAMETERS[word][1])
    for parameter in route.query:
        is_flag = parameter.kind == "boolean"
        parser.add_argument(
            _option(parameter.name),
            dest=parameter.name,
            required=parameter.is_required,
            metavar=_BOOLEAN if is_flag else _metavar(parameter),
            help=parameter.meaning,
            **(_FLAG if is_flag else {}),
        )
    if route.body:
        parser.add_argument("--body", metavar="FILE", help="JSON of the whole body, - for stdin")
        for name, (kind, meaning, _) in fields_of(shape_named(route.body)).items():
            if name != _PASSWORD:  # other users could read a password among the arguments
                _add_field(parser, name, kind, meaning)


def _metavar(parameter: Parameter) -> str:
    if parameter.choices:
        return "|".join(parameter.choices)
    return parameter.metavar or parameter.kind.upper()


def _add_field(parser: argparse.ArgumentParser, name: str, kind: Any, meaning: str) -> None:
    kind = _without_null(kind)
    metavar, action = "JSON", "store"
    if get_origin(kind) is dict:
        metavar, action = "NAME=VALUE", "append"
    elif get_origin(kind) is list and get_args(kind)[0] in (str, int):
        metavar, action = "VALUE", "append"
    elif get_origin(kind) is Literal:
        metavar = "|".join(get_args(kind))
    elif kind in (str, int, float, bool):
        metavar = _BOOLEAN if kind is bool else "VALUE"
    parser.add_argument(
        _option(name),
        dest=f"body_{name}",
        action=action,
        metavar=metavar,
        help=meaning,
        **(_FLAG if kind is bool else {}),
    )


def _option(name: str) -> str:
    """Return the option of a parameter or field."""
    return f"--{name.replace('_', '-')}"


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
        if not getattr(options, f"path_{word}"):
            raise ValueError(f"{word} is empty: {PATH_PARAMETERS[word][1]} is needed")
    words = [
        quoted(getattr(options, f"path_{word}")) if word.isupper() else word
        for word in route.path.strip("/").split("/")
    ]
    return "/" + "/".join(words), {
        parameter.name: getattr(options, parameter.name) for parameter in route.query
    }


def _ask(control: Control, options: argparse.Namespace) -> dict[str, Any]:
    path, query = _target(options)
    body = _body(options) if options.route.body else None
    return control.call(options.route.method, path, query, body, timeout=_TIMEOUT_SECONDS)


def _body(options: argparse.Namespace) -> dict[str, object]:
    """Return the body from its options. Raises ValueError."""
    body = {} if options.body is None else _read_body(options.body)
    fields = fields_of(shape_named(options.route.body))
    for name, (kind, _, _) in fields.items():
        given = getattr(options, f"body_{name}", None)
        if given is not None:
            body[name] = _value(_option(name), _without_null(kind), given)
    if _PASSWORD in fields and _PASSWORD not in body:
        body[_PASSWORD] = _password(str(body.get("user", "the user")), options)
    return body


def _read_body(path: str) -> dict[str, object]:
    try:
        body = json.loads(sys.stdin.read() if path == "-" else Path(path).read_text())
    except OSError as error:
        raise ValueError(f"--body {path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise ValueError(f"--body {path} is not JSON: {error}") from error
    if not isinstance(body, dict):
        raise ValueError(f"--body {path} is not a JSON object, but {_cell(body)}")
    return body


def _value(option: str, kind: Any, given: Any) -> object:
    """Return the JSON value of an option. Raises ValueError with the name of the option."""
    if get_origin(kind) is dict:
        pairs = [pair.partition("=") for pair in given]
        if any(not separator for _, separator, _ in pairs):
            raise ValueError(f"{option}: NAME=VALUE is needed")
        kind = get_args(kind)[1]
        return {name: _scalar(f"{option} {name}", kind, text) for name, _, text in pairs}
    if isinstance(given, list):
        return [_scalar(option, get_args(kind)[0], text) for text in given]
    if get_origin(kind) is list or is_typeddict(kind):
        return _parsed(option, json.loads, given, "JSON")
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
    except (ValueError, KeyError, RecursionError) as error:
        shown = _cell(text)
        raise ValueError(f"{option} is {shown}, which is not {what}") from error


# --- output ---------------------------------------------------------------------------------------


def _show(answer: dict[str, Any], options: argparse.Namespace) -> int:
    if options.json:
        print(json.dumps(answer, indent=2))
        return 0
    for name, value in answer.items():
        if not isinstance(value, dict | list) and name != "next":
            print(f"{name}: {_cell(value)}")
    for name, value in answer.items():
        if isinstance(value, list):
            _show_list(name, value)
        elif isinstance(value, dict):
            print(f"{name}: {_cell(value)}")
    if answer.get("next") is not None:
        print(f"there is more: --after {_printable(str(answer['next']))}", file=sys.stderr)
    return 0


def _show_list(name: str, values: list[Any]) -> None:
    if not values or not all(isinstance(value, dict) for value in values):
        print(f"{name}: {', '.join(map(_cell, values)) or 'none'}")
        return
    for line in _table(values):
        print(line)


def _table(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Yield the lines of a table; columns whose values are null in all rows are left out."""
    names = [name for name in rows[0] if any(row.get(name) is not None for row in rows)]
    cells = [[name.upper() for name in names]]
    cells += [[_cell(row.get(name)) for name in names] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for line in cells:
        padded = [cell.ljust(width) for cell, width in zip(line, widths, strict=True)]
        yield "  ".join(padded).rstrip()


def _cell(value: Any) -> str:
    """Return a value in a few characters."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict) and "size_bytes" in value and "format" in value:
        value = value["text"]
        if value is None:
            return "-"
    text = value if isinstance(value, str) else json.dumps(value)
    text = _printable(text)
    return text if len(text) <= _MOST_CHARACTERS else f"{text[: _MOST_CHARACTERS - 3]}..."


def _printable(text: str) -> str:
    """Escape characters that a terminal would act on."""
    return text if text.isprintable() else ascii(text)[1:-1]


def _follow(control: Control, options: argparse.Namespace) -> int:
    """Print events until the server ends or Ctrl-C."""
    for event in control.events(*_target(options)):
        if options.json:
            print(json.dumps(event), flush=True)
        else:
            at = time.strftime("%H:%M:%S", time.localtime(event["at_ms"] / 1000))
            print(f"{at}  {event['type']}  {_cell(event['data'])}", flush=True)
    return 0


def _tail(control: Control, options: argparse.Namespace) -> int:
    """Print new records until Ctrl-C."""
    while True:
        answer = _ask(control, options)
        options.after = answer["tail"]
        for record in answer["records"]:
            if options.json:
                print(json.dumps(record), flush=True)
                continue
            place = f"{record['partition']}:{record['offset']}"
            print(f"{place}  {_cell(record['key'])}  {_cell(record['value'])}", flush=True)
        if not answer["records"]:
            time.sleep(_PAUSE_SECONDS)
