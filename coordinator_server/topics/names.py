"""Which names a topic may have, and which names are the broker's own.

Rules and texts are Kafka's (org.apache.kafka.common.internals.Topic): the name becomes a directory
name and, with `.` turned into `_`, a metric's name, so two names that differ only there collide.
"""

import re

OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"
SHARE_STATE_TOPIC = "__share_group_state"
GROUP_EVENTS_TOPIC = "__group_events"
"""Ours: what `coordinator_server.rebalances` tells of rebalances."""

INTERNAL_TOPICS = frozenset(
    (OFFSETS_TOPIC, TRANSACTIONS_TOPIC, SHARE_STATE_TOPIC, GROUP_EVENTS_TOPIC)
)
"""Topics that the broker itself writes: clients may read and delete, but not produce to them."""

UNLISTED_TOPICS = frozenset((GROUP_EVENTS_TOPIC,))
"""Topics that listings of all topics leave out, unless `group.events.listed` is set.

Clients that ignore the flag `is_internal`, such as librdkafka and those in Go, would otherwise
consume the topic with a pattern such as `^.*`.
"""

MAX_NAME_LENGTH = 249

_LEGAL = re.compile(r"[a-zA-Z0-9._-]+\Z")


def name_error(name: str) -> str | None:
    """Why `name` is no topic name, as Kafka words it in error messages; None when it is one."""
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
    """What two topics may not share: the name with every `.` as `_`."""
    return name.replace(".", "_")


def is_internal(name: str) -> bool:
    """Whether the broker keeps its own state in the topic of this name."""
    return name in INTERNAL_TOPICS
