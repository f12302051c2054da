"""The subscriptions of a consumer group, and the changes that raise the group epoch.

Source: hasMemberSubscriptionChanged, maybeUpdateRegularExpressions, updateSubscriptionMetadata and
handleRegularExpressionsResult of GroupMetadataManager.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from coordinator_server.core.groups.consumer.records import (
    epoch_record,
    regex_record,
    regex_tombstone,
)
from coordinator_server.core.groups.consumer.regex import (
    NEVER_RESOLVED,
    REFRESH_INTERVAL_MIN_MS,
    InvalidRegexError,
    check_regex,
    resolve,
)
from coordinator_server.core.groups.modern.members import RefusedError
from coordinator_server.core.groups.modern.metadata_hash import metadata_hash
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator_server.core.groups.consumer.consumer_group import ConsumerGroup
    from coordinator_server.core.groups.consumer.member import ConsumerMember
    from coordinator_server.core.groups.effects import Effects
    from coordinator_server.core.groups.records import CoordinatorRecord
    from coordinator_server.steps import Steps


class RegexChange(NamedTuple):
    """The effect of a heartbeat on a group's regular expressions.

    `is_new`: the member's expression changed. `is_resolved`: the topics of the new expression are
    known already. `has_to_resolve`: expressions have to be resolved after the heartbeat.
    """

    is_new: bool
    is_resolved: bool
    has_to_resolve: bool


_NO_REGEX = RegexChange(is_new=False, is_resolved=False, has_to_resolve=False)


def regex_change(
    group: ConsumerGroup,
    before: ConsumerMember,
    after: ConsumerMember,
    now_ms: int,
    records: list[CoordinatorRecord],
) -> RegexChange:
    """Return the effect of a member's expression; add the tombstone of an abandoned expression.

    Raises RefusedError if RE2 does not accept the expression.
    """
    old, new = before.regex, after.regex
    is_new = old != new
    if not is_new and not group.regex_members:
        return _NO_REGEX
    is_resolved = has_to_resolve = False
    if is_new:
        if old and group.regex_members.get(old) == 1:
            records.append(regex_tombstone(group.group_id, old))
        if not new:
            is_resolved = bool(old)
        elif new in group.regex_members:
            is_resolved = new in group.resolved
        else:
            _check(new)
            has_to_resolve = True
    has_to_resolve = _is_due(group, old, new, now_ms, is_required=has_to_resolve)
    return RegexChange(is_new, is_resolved, has_to_resolve)


def _check(expression: str) -> None:
    try:
        check_regex(expression)
    except InvalidRegexError as error:
        message = f"SubscribedTopicRegex `{expression}` is not a valid regular expression: {error}."
        raise RefusedError(ErrorCode.INVALID_REGULAR_EXPRESSION, message) from None


def _is_due(
    group: ConsumerGroup, old: str | None, new: str | None, now_ms: int, *, is_required: bool
) -> bool:
    """Return whether expressions must be resolved now, after the minimum interval has passed."""
    # All expressions have the same timestamp, because they are resolved together.
    last = next(iter(group.resolved.values()), NEVER_RESOLVED)
    age_ms = now_ms - last.timestamp_ms
    if age_ms <= REFRESH_INTERVAL_MIN_MS:
        return False
    subscribed = set(group.regex_members)
    if old and old != new and group.regex_members.get(old) == 1:
        subscribed.discard(old)
    if new:
        subscribed.add(new)
    if not subscribed:
        return False
    return (
        is_required
        or len(subscribed) != len(group.resolved)
        or group.resolved_revision < group.environment.topics.created_revision
        or age_ms > group.settings.consumer_regex_refresh_interval_ms
    )


def resolve_expressions(group: ConsumerGroup, now_ms: int, effects: Effects) -> Steps:
    """Record the topics that the expressions match; a change raises the group epoch.

    Expressions that were resolved after the last topic change keep their topics. As in Kafka,
    topics that the triggering member may not describe do not match.
    """
    topics, may_describe = group.environment.topics, group.may_describe
    revision = topics.revision
    is_same = revision == group.resolved_revision and may_describe is None
    known = group.resolved if is_same else {}
    new = yield from resolve(group.regex_members.keys() - known, topics, now_ms, may_describe)
    resolved = {
        member: new[member] if member in new else known[member]._replace(timestamp_ms=now_ms)
        for member in group.regex_members
    }
    if not resolved:
        return
    records = [
        regex_record(group.group_id, expression, resolution)
        for expression, resolution in resolved.items()
    ]
    names = set(group.readers).union(*(resolution.topics for resolution in resolved.values()))
    hashed = yield from metadata_hash(names, group.environment.topics)
    is_other = any(
        resolution.topics != group.resolved.get(expression, NEVER_RESOLVED).topics
        for expression, resolution in resolved.items()
    )
    if is_other or hashed != group.metadata_hash:
        records.append(epoch_record(group.group_id, group.epoch + 1, hashed))

    def done(error: ErrorCode, now_ms: int, effects: Effects) -> None:
        if error is ErrorCode.NONE:
            group.resolved_revision = revision

    effects.write(records, done)
