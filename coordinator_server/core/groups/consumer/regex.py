"""Regular-expression subscriptions, resolved with RE2 as in Kafka.

An expression must match the whole topic name. Expressions are resolved again when topics have
changed, at most every 10 seconds per group, and at least every
`group.consumer.regex.refresh.interval.ms`. Source:
GroupMetadataManager.maybeUpdateRegularExpressions and refreshRegularExpressions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from coordinator_server.core.groups.effects import Pace

if TYPE_CHECKING:
    from coordinator_server.core.caller import MayDescribe
    from coordinator_server.core.groups.settings import TopicsView
    from coordinator_server.steps import Computation

REFRESH_INTERVAL_MIN_MS = 10_000
"""Kafka's REGEX_BATCH_REFRESH_MIN_INTERVAL_MS."""


_RE2J_TEXTS = {
    "missing ]": "missing closing ]",
    "missing )": "missing closing )",
    "unexpected )": "regexp/syntax: internal error",
    "trailing \\": "trailing backslash at end of expression",
    "no argument for repetition operator": "missing argument to repetition operator",
    "invalid repetition size": "invalid repeat count",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
}
"""RE2's error messages -> those of RE2/J, where they differ."""


class ResolvedRegex(NamedTuple):
    """The topics that match an expression, and the topics revision and time (ms) of the match."""

    topics: frozenset[str]
    version: int
    timestamp_ms: int


NEVER_RESOLVED = ResolvedRegex(frozenset(), -1, -1)


class InvalidRegexError(Exception):
    """RE2 does not accept an expression; the text is the reason."""


def check_regex(expression: str) -> None:
    """Raise InvalidRegexError if RE2 does not accept the expression."""
    _compiled(expression)


def resolve(
    expressions: Iterable[str],
    topics: TopicsView,
    now_ms: int,
    may_describe: MayDescribe | None = None,
) -> Computation[Mapping[str, ResolvedRegex]]:
    """Return the describable topics that match each of `expressions`.

    An expression that RE2 does not accept matches no topic.
    """
    revision = topics.revision
    names = [topic.name for topic in topics.listed_topics()]
    pace = Pace()
    resolved: dict[str, ResolvedRegex] = {}
    for expression in expressions:
        matching: set[str] = set()
        with suppress(InvalidRegexError):
            matches = _compiled(expression).fullmatch
            for name in names:
                if matches(name) and (may_describe is None or may_describe(name)):
                    matching.add(name)
                if pace.is_due():
                    yield
        resolved[expression] = ResolvedRegex(frozenset(matching), revision, now_ms)
    return resolved


def _compiled(expression: str) -> Any:
    import re2

    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(expression, options)
    except re2.error as error:
        text = error.args[0].decode(errors="replace") if error.args else "it cannot be read"
        reason = text.partition(":")[0]
        raise InvalidRegexError(_RE2J_TEXTS.get(reason, reason)) from None
