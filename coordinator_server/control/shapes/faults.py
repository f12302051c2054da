"""Fault rules."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired, TypedDict


class FaultRule(TypedDict):
    """A fault rule. It matches requests for which all given fields match, and needs an action.

    Texts may contain `*` and `?`. If a rule with `topic`, `partition`, `group`, `member` or
    `transactional_id` has an error, only these elements of the request fail.
    """

    api: NotRequired[Annotated[str, "names of APIs, separated by commas; all APIs if missing"]]
    version: NotRequired[Annotated[str, "version of the request, or a range such as 0-9"]]
    client_id: NotRequired[Annotated[str, "client id"]]
    principal: NotRequired[Annotated[str, "principal, such as User:alice"]]
    listener: NotRequired[Annotated[str, "name of the listener"]]
    group: NotRequired[Annotated[str, "group id"]]
    member: NotRequired[Annotated[str, "member id"]]
    transactional_id: NotRequired[Annotated[str, "transactional id"]]
    topic: NotRequired[Annotated[str, "name of a topic"]]
    partition: NotRequired[Annotated[int, "number of a partition of `topic`"]]
    times: NotRequired[Annotated[int, "how often the rule takes effect before it is over"]]
    skip: NotRequired[Annotated[int, "how many matching requests are served first"]]
    probability: NotRequired[Annotated[float, "share of the matching requests, from 0 to 1"]]
    seed: NotRequired[Annotated[int, "seed of the random numbers of probability and jitter_ms"]]
    for_ms: NotRequired[Annotated[int, "time after which the rule is over"]]
    error: NotRequired[Annotated[str, "action: answer with this error code; the work is not done"]]
    message: NotRequired[Annotated[str, "error message, if the response has such a field"]]
    delay_ms: NotRequired[Annotated[int, "action: wait before the work is done"]]
    late_ms: NotRequired[Annotated[int, "action: do the work, then wait before the response"]]
    jitter_ms: NotRequired[Annotated[int, "most ms that are added to delay_ms and late_ms"]]
    throttle_ms: NotRequired[
        Annotated[int, "action: throttle time of the response; the connection is muted (KIP-219)"]
    ]
    drop: NotRequired[
        Annotated[
            Literal["before", "after"],
            "action: close the connection before the work, or after it without a response",
        ]
    ]
    cut: NotRequired[
        Annotated[bool, "action: send the first half of the response, then close the connection"]
    ]
    corrupt: NotRequired[
        Annotated[bool, "action: the first batch of fetched records has a wrong CRC (Fetch only)"]
    ]
    force: NotRequired[Annotated[bool, "allow an error code that Kafka never returns for the API"]]


class ActiveFault(TypedDict):
    """A rule and its effect so far."""

    id: Annotated[int, "number of the rule"]
    rule: Annotated[FaultRule, "the rule as it was added"]
    injected: Annotated[int, "faults so far"]
    is_over: Annotated[bool, "whether the rule has no further effect"]


class ActiveFaults(TypedDict):
    """The rules, in the order in which they apply."""

    faults: Annotated[list[ActiveFault], "the rules"]
