"""`coordinator-server doctor HOST:PORT`: connect like a client, and report what fails.

Resolve the name, connect, perform the TLS handshake and the SASL authentication that the client
settings require, request versions and metadata, connect to every advertised address, and join and
leave a temporary group, which is deleted at the end. Works with any Kafka broker. The exit code is
1 if a step fails, and 2 for wrong arguments.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Mapping
from typing import Any

from coordinator_server.client import (
    Address,
    ClientError,
    ClientSettings,
    parse_addresses,
    read_settings,
)
from coordinator_server.tools.client_options import add_client_options, read_client_properties
from coordinator_server.tools.doctor_step import Step, shown

_TIMEOUT_S = 10.0


def main(arguments: list[str]) -> int:
    """Run with these arguments and return the exit code."""
    parser = _parser()
    options = parser.parse_args(arguments)
    try:
        properties = read_client_properties(options)
        settings = _settings(properties, options.timeout)
    except ClientError as error:
        parser.error(str(error))
    from coordinator_server.tools.doctor_settings import look_at_names
    from coordinator_server.tools.doctor_walk import Walk

    steps: list[Step] = []
    show = steps.append if options.json else _print
    group = f"{options.group_prefix}{os.urandom(6).hex()}"
    look_at_names(properties, show)
    try:
        is_well = Walk(options.address, settings, options.timeout, group, show).run()
    except KeyboardInterrupt:
        return 1
    if options.json:
        answer: dict[str, Any] = {
            "address": shown(options.address),
            "ok": is_well,
            "steps": [step.fields() for step in steps],
        }
        print(json.dumps(answer, indent=2))
    return 0 if is_well else 1


def _print(step: Step) -> None:
    print("\n".join(step.lines()), flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="coordinator-server doctor", description=(__doc__ or "").split("\n\n")[1]
    )
    parser.add_argument("address", metavar="HOST:PORT", type=_address, help="bootstrap server")
    add_client_options(parser)
    parser.add_argument(
        "--timeout",
        metavar="SECONDS",
        type=_seconds,
        default=_TIMEOUT_S,
        help="timeout of each step (default: 10)",
    )
    parser.add_argument(
        "--group-prefix",
        metavar="TEXT",
        default="doctor-",
        help=(
            "prefix of the name of the temporary group, for brokers whose ACLs allow only "
            "certain groups (default: doctor-)"
        ),
    )
    parser.add_argument("--json", action="store_true", help="print the result as one JSON object")
    return parser


def _settings(properties: Mapping[str, str], timeout_s: float) -> ClientSettings:
    """Return the client's settings, with the timeout applied. Raises ClientError."""
    timeout_ms = int(timeout_s * 1000)
    return read_settings(properties, ClientSettings(client_id="doctor"))._replace(
        request_timeout_ms=timeout_ms, socket_connection_setup_timeout_ms=timeout_ms
    )


def _address(text: str) -> Address:
    try:
        addresses = parse_addresses(text)
    except ClientError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no HOST:PORT") from error
    if len(addresses) > 1:
        raise argparse.ArgumentTypeError("one HOST:PORT at a time")
    return addresses[0]


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.1 <= value <= 600:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds from 0.1 to 600")
    return value
