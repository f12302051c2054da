"""Cells whose answers differ from Kafka's, with the reasons."""

from __future__ import annotations

_CREATES = (
    "the response to the request that creates a topic describes the topic (decision 14); Kafka "
    "answers UNKNOWN_TOPIC_OR_PARTITION"
)

_MAY_CREATE = (
    *("super", "full", "all-operations", "implied", "prefixed", "wildcard", "everyone"),
    *("right-host", "deny-other-host", "deny-all", "odd", "even", "first-2"),
    *("deny-1", "deny-2", "deny-3", "deny-4", "without-2", "without-3", "without-4"),
)
EXPLAINED: dict[str, str] = {
    **{
        f"{case} {grant}": _CREATES
        for case in ("Metadata [0-3]", "Metadata.created *")
        for grant in _MAY_CREATE
    },
}
"""Reasons by pattern of "case version grant". All matching cells must differ."""
