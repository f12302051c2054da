"""`coordinator-server explain GROUP`: print why a group rebalanced, and the result.

Read the rebalances of a group from the topic `__group_events` of a running broker. Times are UTC.
The exit code is 1 if there are no records of the group, and 2 if the broker cannot be reached or
does not write the topic.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import deque
from collections.abc import Iterable
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from typing import Any
from urllib.parse import quote

from coordinator_server.client import ClientError
from coordinator_server.config.config import format_address, parse_address
from coordinator_server.config.token_file import read_token
from coordinator_server.rebalances.events_reader import SETTINGS, EventsReader, NoTopicError
from coordinator_server.rebalances.schema import SCHEMA_VERSION
from coordinator_server.rebalances.story import tell
from coordinator_server.tools.client_options import add_client_options, read_client_settings
from protocol.errors import ErrorCode

HTTP_SECONDS = 10

FOLLOW_WAIT_MS = 500
"""Max wait of a Fetch, and the interval between checks for a missing topic."""


def main(arguments: list[str]) -> int:
    """Run with these arguments and return the exit code."""
    parser = _parser()
    options = parser.parse_args(arguments)
    host, port = options.bootstrap
    address = format_address(host or "127.0.0.1", port)
    try:
        settings = read_client_settings(options, SETTINGS)
    except ClientError as error:
        parser.error(str(error))
    reader = None
    try:
        reader = EventsReader(address, options.group, settings)
        code = _explain(reader, options, address)
        if options.http is not None and not options.json:
            for line in _now(options.http, options.group, options.http_token_file):
                print(line)
        return code
    except ClientError as error:
        print(f"coordinator-server: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 0
    finally:
        if reader is not None:
            reader.close()


def _now(address: tuple[str, int], group: str, token: str | None) -> list[str]:
    """Return the group's current state from the control server, as lines of text.

    Returns an empty list if the control server does not know the group, or for a classic group.
    Raises ClientError.
    """
    connection = HTTPConnection(address[0] or "127.0.0.1", address[1], timeout=HTTP_SECONDS)
    try:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        connection.request("GET", f"/groups/{quote(group, safe='')}", headers=headers)
        response = connection.getresponse()
        answer = json.loads(response.read())
    except (OSError, HTTPException, ValueError) as error:
        shown = format_address(*address)
        message = f"{shown} is no control server that answers: {error}"
        raise ClientError(ErrorCode.NETWORK_EXCEPTION, message) from error
    finally:
        connection.close()
    if response.status == HTTPStatus.UNAUTHORIZED:
        raise ClientError(ErrorCode.NETWORK_EXCEPTION, f"--http: {answer['error']}")
    lines = answer.get("now", [])
    return ["now:", *(f"    {line}" for line in lines)] if lines else []


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="coordinator-server explain", description=(__doc__ or "").split("\n\n")[1]
    )
    parser.add_argument("group", metavar="GROUP", help="group id")
    parser.add_argument(
        "--bootstrap-server",
        "--bootstrap",
        dest="bootstrap",
        metavar="HOST:PORT",
        type=_address,
        default=("127.0.0.1", 9092),
        help="bootstrap server (default: 127.0.0.1:9092)",
    )
    parser.add_argument(
        "--http",
        metavar="HOST:PORT",
        type=_address,
        default=None,
        help="control server of the broker; also print the current state of the group",
    )
    parser.add_argument(
        "--http-token-file",
        metavar="FILE",
        type=_token,
        default=None,
        help="file with the token of the control server",
    )
    parser.add_argument(
        "--json", action="store_true", help="print the records unchanged, one JSON object per line"
    )
    parser.add_argument(
        "--last", metavar="N", type=_count, default=None, help="print only the last N rebalances"
    )
    parser.add_argument(
        "--follow", action="store_true", help="wait for further rebalances and print them"
    )
    add_client_options(parser)
    return parser


def _address(text: str) -> tuple[str, int]:
    try:
        return parse_address(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _token(path: str) -> str:
    try:
        return read_token(path)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of rebalances")
    return int(text)


def _explain(reader: EventsReader, options: argparse.Namespace, address: str) -> int:
    if not _open(reader, address, wait=options.follow):
        return _nothing(options.group, address)
    records: deque[dict[str, Any]] = deque(reader.read(), maxlen=options.last)
    if records:
        _print(records, as_json=options.json)
    elif not options.follow:
        return _nothing(options.group, address)
    while options.follow:
        _print(reader.read(FOLLOW_WAIT_MS), as_json=options.json)
    return 0


def _open(reader: EventsReader, address: str, *, wait: bool) -> bool:
    """Open the topic, waiting for its creation if `wait`.

    Returns False if the topic does not exist. Raises ClientError if the topic cannot be read.
    """
    while True:
        try:
            reader.open()
        except NoTopicError as error:
            enabled = reader.is_enabled()
            if enabled is None:
                raise ClientError(
                    error.code, f"{address} keeps no __group_events, it is another broker"
                ) from error
            if not enabled:
                raise ClientError(
                    error.code, f"{address} writes no __group_events: group.events.enable is false"
                ) from error
            if not wait:
                return False
        else:
            return True
        time.sleep(FOLLOW_WAIT_MS / 1000)


def _nothing(group: str, address: str) -> int:
    print(f"coordinator-server: no rebalance of {group!r} is on record at {address}",
          file=sys.stderr)  # fmt: skip
    return 1


def _print(records: Iterable[dict[str, Any]], *, as_json: bool) -> None:
    """Print one story after the other, each flushed at once because a user may be watching."""
    for record in records:
        if as_json:
            print(json.dumps(record), flush=True)
        elif record["schema"] > SCHEMA_VERSION:
            print(f"a record of schema {record['schema']}, from a newer broker: --json shows it")
        else:
            print("\n".join(tell(record)), flush=True)
