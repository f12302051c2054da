"""`coordinator-server users`: list SCRAM users, set their passwords, delete them.

    coordinator-server users --bootstrap-server HOST:PORT list
    coordinator-server users --bootstrap-server HOST:PORT set alice
    coordinator-server users --bootstrap-server HOST:PORT delete alice

A password is typed at the terminal, or is the first line of standard input or of --password-file;
never an argument, which others could read. Works with any Kafka since 2.7. Exit code 1 when a
broker refuses, 2 for wrong arguments.
"""

from __future__ import annotations

import argparse
import sys

from coordinator_server.client import Client, ClientError, ClientSettings
from coordinator_server.client.scram_users import (
    MIN_ITERATIONS,
    Credential,
    alter_scram_users,
    list_scram_users,
)
from coordinator_server.security.credentials.scram_mechanisms import MAX_ITERATIONS, SCRAM_BY_NAME
from coordinator_server.tools.client_options import add_client_options, read_client_settings
from coordinator_server.tools.passwords import read_password
from protocol.errors import ErrorCode

_TIMEOUT_MS = 10_000


def main(arguments: list[str]) -> int:
    """Run with these arguments and return the exit code."""
    parser = _parser()
    options = parser.parse_args(arguments)
    defaults = ClientSettings(client_id="users", default_api_timeout_ms=_TIMEOUT_MS)
    try:
        settings = read_client_settings(options, defaults)
        password = ""
        if options.action == "set":
            password = read_password(options.user, options.password_file, is_new=True)
        client = Client(options.bootstrap_server, settings)
    except (ClientError, OSError, ValueError) as error:
        parser.error(str(error))
    try:
        return _run(client, options, password)
    except ClientError as error:
        print(f"coordinator-server users: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 1
    finally:
        client.close()


def _run(client: Client, options: argparse.Namespace, password: str) -> int:
    """Run the chosen action. Raises ClientError.

    Each mechanism has its own request, because brokers refuse to alter a user twice in one request.
    """
    if options.action == "list":
        for user in list_scram_users(client):
            mechanisms = ", ".join(f"{name} ({n})" for name, n in sorted(user.iterations.items()))
            print(f"{user.name}\t{mechanisms}")
        return 0
    chosen = options.mechanism or list(SCRAM_BY_NAME)
    if options.action == "set":
        for name in chosen:
            credential = Credential(options.user, name, password, options.iterations)
            alter_scram_users(client, [credential], ())
        print(f"{options.user} logs in by {' and '.join(chosen)}")
        return 0
    described = list_scram_users(client, [options.user])
    removed = sorted({name for user in described for name in user.iterations} & set(chosen))
    if not removed:
        raise ClientError(
            ErrorCode.RESOURCE_NOT_FOUND, f"{options.user!r} has no {' and no '.join(chosen)}"
        )
    for name in removed:
        alter_scram_users(client, (), [(options.user, name)])
    print(f"{options.user} has no {' and no '.join(removed)} any more")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="coordinator-server users",
        description="List users with SCRAM credentials, set a password, or delete a user.",
    )
    parser.add_argument(
        "--bootstrap-server", metavar="HOST:PORT", required=True, help="bootstrap server"
    )
    add_client_options(parser)
    actions = parser.add_subparsers(dest="action", required=True, metavar="list | set | delete")
    actions.add_parser("list", help="list users with their mechanisms and iterations")
    for action, text in (
        ("set", "create a user, or set a new password"),
        ("delete", "delete a user; existing connections stay open until the next authentication"),
    ):
        command = actions.add_parser(action, help=text, description=text)
        command.add_argument("user", metavar="USER", type=_user, help="user name")
        command.add_argument(
            "--mechanism",
            action="append",
            choices=tuple(SCRAM_BY_NAME),
            help="SCRAM mechanism (repeatable; default: both)",
        )
        if action == "set":
            command.add_argument(
                "--iterations",
                type=_iterations,
                default=MIN_ITERATIONS,
                help="SCRAM iterations, %(default)s by default",
            )
            command.add_argument(
                "--password-file",
                metavar="FILE",
                help=(
                    "file whose first line is the password (default: the first line of "
                    "standard input)"
                ),
            )
    return parser


def _user(text: str) -> str:
    if not text:
        raise argparse.ArgumentTypeError("the user name is empty")
    return text


def _iterations(text: str) -> int:
    if not text.isdecimal() or not MIN_ITERATIONS <= int(text) <= MAX_ITERATIONS:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no number from {MIN_ITERATIONS} to {MAX_ITERATIONS}"
        )
    return int(text)
