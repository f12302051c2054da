"""Cells that are answered otherwise than by a Kafka, and why."""

from __future__ import annotations

_FIXED = (
    "the settings of a broker come from its command line and its file: all of them are answered as "
    "a Kafka answers those that cannot be changed, before it asks who wants it"
)
_FAILS = "a Kafka with an authorizer fails at ids that no topic has; we answer UNKNOWN_TOPIC_ID"

_ALLOWED_BY_GROUP = (
    *("super", "full", "all-operations", "implied", "prefixed", "wildcard", "everyone"),
    *("right-host", "deny-other-host", "odd", "deny-2", "without-2"),
)

EXPLAINED: dict[str, str] = {
    "*AlterConfigs.broker *": _FIXED,
    **{
        f"{case} * {grant}": _FAILS
        for case in ("ShareAcknowledge.absent", "ShareFetch")
        for grant in _ALLOWED_BY_GROUP
    },
}
"""Pattern of "case version grant" -> reason. All cells that match have to differ."""
