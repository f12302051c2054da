"""kafka-delegation-tokens.sh: create, renew, expire and describe delegation tokens.

Source: Kafka's DelegationTokenCommand.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any, NamedTuple, NoReturn

from coordinator_server.client import Client, ClientError, check
from coordinator_server.kafka_tools.frame import (
    BOOTSTRAP_SERVER,
    COMMAND_CONFIG,
    EXECUTION,
    ToolError,
    ToolSpec,
    connect,
    illegal_argument,
    parse_principal,
    raise_wrapped,
)
from coordinator_server.kafka_tools.java import decode_base64
from coordinator_server.kafka_tools.options import Option, Options, UsageError

_ACTIONS = ("create", "renew", "expire", "describe")
_COLUMNS = (
    ("TOKENID", 15),
    ("HMAC", 30),
    ("OWNER", 15),
    ("REQUESTER", 15),
    ("RENEWERS", 25),
    ("ISSUEDATE", 15),
    ("EXPIRYDATE", 15),
    ("MAXDATE", 15),
)
_NOT_ALLOWED_WITH = {
    "create": ("hmac", "renew-time-period", "expiry-time-period"),
    "renew": (
        "renewer-principal",
        "max-life-time-period",
        "expiry-time-period",
        "owner-principal",
    ),
    "expire": ("renew", "max-life-time-period", "renew-time-period", "owner-principal"),
    "describe": ("renew-time-period", "max-life-time-period", "hmac", "expiry-time-period"),
}


def _optional(name: str, text: str, kind: str = "str") -> Option:
    return Option(name, text, argument=name, kind=kind, is_argument_optional=True)


OPTIONS = (
    BOOTSTRAP_SERVER,
    COMMAND_CONFIG._replace(
        help=(
            "REQUIRED: a properties file with client settings, because the broker must "
            "authenticate the client."
        )
    ),
    Option("create", "Create a token for --owner-principal, or for the authenticated user."),
    Option("renew", "Renew a token for --renew-time-period."),
    Option("expire", "Expire a token after --expiry-time-period."),
    Option(
        "describe",
        "Print the tokens of --owner-principal, and the tokens that this principal may renew.",
    ),
    _optional("owner-principal", "A principal such as User:alice."),
    _optional("renewer-principal", "Who may renew the token, such as User:bob; repeatable."),
    _optional(
        "max-life-time-period",
        "How long the token may live at most, in ms; -1: what the broker has.",
        "long",
    ),
    _optional(
        "renew-time-period",
        "How long it lives from now on, in ms; -1: what the broker has.",
        "long",
    ),
    _optional("expiry-time-period", "After how many ms it ends; -1: now.", "long"),
    _optional("hmac", "The HMAC of the token."),
)


class Token(NamedTuple):
    """The printed fields of a token; times are in milliseconds since the epoch."""

    token_id: str
    hmac: bytes
    owner: str
    requester: str
    renewers: Sequence[str]
    issued_at_ms: int
    expires_at_ms: int
    max_at_ms: int

    def cells(self) -> tuple[str, ...]:
        """Return the cells of the token's table row."""
        from base64 import b64encode

        times = (self.issued_at_ms, self.expires_at_ms, self.max_at_ms)
        return (
            self.token_id,
            b64encode(self.hmac).decode(),
            self.owner,
            self.requester,
            f"[{', '.join(self.renewers)}]",
            *map(_date, times),
        )


def run(options: Options) -> int:
    """Check the options and run the one action that they select."""
    if sum(map(options.has, _ACTIONS)) != 1:
        raise UsageError(
            "Command must include exactly one action: --create, --renew, --expire or --describe"
        )
    (action,) = filter(options.has, _ACTIONS)
    _check(options, action)
    with closing(connect(options)) as client:
        {"create": _create, "renew": _renew, "expire": _expire, "describe": _describe}[action](
            client, options
        )
    return 0


def _check(options: Options, action: str) -> None:
    """Raise UsageError for options that are missing or cannot be combined."""
    options.required("bootstrap-server", "command-config")
    needed = {
        "create": ("max-life-time-period",),
        "renew": ("hmac", "renew-time-period"),
        "expire": ("hmac", "expiry-time-period"),
    }
    options.required(*needed.get(action, ()))
    options.excludes(action, *_NOT_ALLOWED_WITH[action])


def _create(client: Client, options: Options) -> None:
    from protocol.apis.create_delegation_token import (
        CreatableRenewers,
        CreateDelegationTokenRequest,
    )

    renewers = _principals(options, "renewer-principal")
    lifetime_ms = _period(options, "max-life-time-period")
    print(
        f"Calling create token operation with renewers :[{', '.join(renewers)}] ,"
        f" max-life-time-period :{lifetime_ms}"
    )
    request = CreateDelegationTokenRequest(
        owner_principal_type="",
        owner_principal_name="",
        renewers=[
            CreatableRenewers(principal_type=kind, principal_name=name)
            for kind, name in map(_split, renewers)
        ],
        max_lifetime_ms=lifetime_ms,
    )
    owners = _principals(options, "owner-principal")
    if owners:
        request.owner_principal_type, request.owner_principal_name = _split(owners[0])
    made = _ask(client, "createDelegationToken", request, min_version=3 if owners else 0)
    print(f"Created delegation token with tokenId : {made.token_id}")
    owner = f"{made.principal_type}:{made.principal_name}"
    _print(
        [
            Token(
                made.token_id,
                bytes(made.hmac),
                owner,
                _requester(made),
                renewers,
                made.issue_timestamp_ms,
                made.expiry_timestamp_ms,
                made.max_timestamp_ms,
            )
        ]
    )


def _renew(client: Client, options: Options) -> None:
    from protocol.apis.renew_delegation_token import RenewDelegationTokenRequest

    _change(client, options, "renew", "renew-time-period",
            lambda hmac, period_ms: RenewDelegationTokenRequest(
                hmac=hmac, renew_period_ms=period_ms))  # fmt: skip


def _expire(client: Client, options: Options) -> None:
    from protocol.apis.expire_delegation_token import ExpireDelegationTokenRequest

    _change(client, options, "expire", "expiry-time-period",
            lambda hmac, period_ms: ExpireDelegationTokenRequest(
                hmac=hmac, expiry_time_period_ms=period_ms))  # fmt: skip


def _change(
    client: Client,
    options: Options,
    action: str,
    period: str,
    request: Callable[[bytes, int], Any],
) -> None:
    """Renew or expire a token."""
    hmac = options.value("hmac")
    period_ms = _period(options, period)
    label = "expire-time-period" if action == "expire" else period
    print(
        f"Calling {action} token operation with hmac :{'null' if hmac is None else hmac} ,"
        f" {label} :{period_ms}"
    )
    if hmac is None:
        _null_pointer(
            'Cannot invoke "String.getBytes(java.nio.charset.Charset)" because "src" is null'
        )
    try:
        decoded = decode_base64(hmac)
    except ValueError as error:
        illegal_argument(str(error))
    answer = _ask(client, f"{action}DelegationToken", request(decoded, period_ms))
    ends = _date(answer.expiry_timestamp_ms)
    print(f"Completed {action} operation. New expiry date : {ends}", end="")


def _describe(client: Client, options: Options) -> None:
    from protocol.apis.describe_delegation_token import (
        DescribeDelegationTokenOwner,
        DescribeDelegationTokenRequest,
    )

    owners = _principals(options, "owner-principal")
    if owners:
        print(f"Calling describe token operation for owners: [{', '.join(owners)}]")
    else:
        print("Calling describe token operation for current user.")
    request = DescribeDelegationTokenRequest(
        owners=[
            DescribeDelegationTokenOwner(principal_type=kind, principal_name=name)
            for kind, name in map(_split, owners)
        ]
    )
    tokens = _ask(client, "describeDelegationToken", request).tokens
    print(f"Total number of tokens : {len(tokens)}", end="")
    _print(
        [
            Token(
                token.token_id,
                bytes(token.hmac),
                f"{token.principal_type}:{token.principal_name}",
                _requester(token),
                [
                    f"{renewer.principal_type}:{renewer.principal_name}"
                    for renewer in token.renewers
                ],
                token.issue_timestamp,
                token.expiry_timestamp,
                token.max_timestamp,
            )
            for token in tokens
        ]
    )


def _requester(token: Any) -> str:
    return f"{token.token_requester_principal_type}:{token.token_requester_principal_name}"


def _ask(client: Client, name: str, request: Any, min_version: int = 0) -> Any:
    """Send a request and return the response; raise errors as futures of Java's Admin do."""

    def attempt() -> Any:
        answer = client.ask(request, min_version=min_version)
        check(answer.error_code)
        return answer

    try:
        return client.call(name, attempt)
    except ClientError as error:
        raise_wrapped(error, EXECUTION)


def _principals(options: Options, name: str) -> list[str]:
    return [parse_principal(text) for text in options.values(name)]


def _split(principal: str) -> tuple[str, str]:
    kind, _, name = principal.partition(":")
    return kind, name


def _period(options: Options, name: str) -> int:
    period_ms = options.integer(name)
    if period_ms is None:
        _null_pointer(
            'Cannot invoke "java.lang.Long.longValue()" because the return value of'
            ' "joptsimple.OptionSet.valueOf(joptsimple.OptionSpec)" is null'
        )
    return period_ms


def _null_pointer(message: str) -> NoReturn:
    raise ToolError("java.lang.NullPointerException", message)


def _print(tokens: Sequence[Token]) -> None:
    """Print the table, with an empty line before each row."""
    for cells in ([name for name, _ in _COLUMNS], *(token.cells() for token in tokens)):
        widths = (width for _, width in _COLUMNS)
        row = " ".join(f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=True))
        print(f"\n{row}")


def _date(time_ms: int) -> str:
    """Return a time in local time, as Java's SimpleDateFormat formats it."""
    return time.strftime("%Y-%m-%dT%H:%M", time.localtime(time_ms // 1000))


TOOL = ToolSpec(
    "kafka-delegation-tokens",
    OPTIONS,
    run,
    "This tool helps to create, renew, expire, or describe delegation tokens.",
)
