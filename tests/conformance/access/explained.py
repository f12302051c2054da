"""Cells that are answered otherwise than by a Kafka, and why."""

from __future__ import annotations

_FIXED = "the settings of a broker come from its command line and its file, and cannot be changed"
_FAILS = "a Kafka with an authorizer fails at ids that no topic has; we answer UNKNOWN_TOPIC_ID"

_ALLOWED_BY_ALL = (
    *("super", "full", "all-operations", "implied", "prefixed", "wildcard", "everyone"),
    *("right-host", "deny-other-host"),
)
_ALLOWED_BY_GROUP = (*_ALLOWED_BY_ALL, "odd", "deny-2", "without-2")

EXPLAINED: dict[str, str] = {
    **{f"*AlterConfigs.broker * {grant}": _FIXED for grant in _ALLOWED_BY_ALL},
    **{f"ShareAcknowledge.absent * {grant}": _FAILS for grant in _ALLOWED_BY_GROUP},
}
"""Pattern of "case version grant" -> reason. All cells that match have to differ."""
