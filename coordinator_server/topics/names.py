"""Rules for topic names, and the names of internal topics.

Rules and error texts are Kafka's (org.apache.kafka.common.internals.Topic). Kafka replaces `.` with
`_` in metric names, so two topic names that differ only in these characters collide.
"""

import re

OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"
SHARE_STATE_TOPIC = "__share_group_state"
GROUP_EVENTS_TOPIC = "__group_events"
"""Events about rebalances, written by `coordinator_server.rebalances`. Kafka lacks this topic."""

INTERNAL_TOPICS = frozenset(
    (OFFSETS_TOPIC, TRANSACTIONS_TOPIC, SHARE_STATE_TOPIC, GROUP_EVENTS_TOPIC)
)
"""Topics that only the broker writes: clients can read and delete them, but not produce to them."""

UNLISTED_TOPICS = frozenset((GROUP_EVENTS_TOPIC,))
"""Topics that listings of all topics leave out, unless `group.events.listed` is set.

Clients that ignore the flag `is_internal`, such as librdkafka and those in Go, would otherwise
consume the topic with a pattern such as `^.*`.
"""

MAX_NAME_LENGTH = 249

_LEGAL = re.compile(r"[a-zA-Z0-9._-]+\Z")


def name_error(name: str) -> str | None:
    """Return Kafka's error message for an invalid topic name; None if the name is valid."""
    if _LEGAL.match(name) and len(name) <= MAX_NAME_LENGTH and name not in (".", ".."):
        return None
    if not name:
        reason = "the empty string is not allowed"
    elif name in (".", ".."):
        reason = f"'{name}' is not allowed"
    elif len(name) > MAX_NAME_LENGTH:
        reason = f"the length of '{name}' is longer than the max allowed length {MAX_NAME_LENGTH}"
    else:
        reason = (
            f"'{name}' contains one or more characters other than ASCII alphanumerics, "
            "'.', '_' and '-'"
        )
    return f"Topic name is invalid: {reason}"


def collision_key(name: str) -> str:
    """Return the name with `_` for each `.`; no two topics may have the same result."""
    return name.replace(".", "_")


def is_internal(name: str) -> bool:
    """Return whether this is the name of an internal topic."""
    return name in INTERNAL_TOPICS
