"""Formats a rebalance record as text: one sentence, then details.

    generation 7: c-2 on /127.0.0.1 missed its session timeout of 10 000 ms; 2 of 3 members
    rejoined in 41 ms; 4 of 12 partitions moved

Fields that another version of the broker did not write are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from coordinator_server.core.groups.explain import Absence, RebalanceOutcome, Trigger
from coordinator_server.core.groups.settings import GroupKind

if TYPE_CHECKING:
    from coordinator_server.rebalances.schema import RebalanceRecord

_UUID = re.compile(r"-([0-9a-f]{8})-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\Z")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_WHY = {
    Absence.NOT_REJOINED: "did not rejoin in time",
    Absence.NEVER_SYNCED: "never asked for its assignment",
    Absence.SESSION_EXPIRED: "missed its session timeout",
    Absence.NO_ROOM: "found the group full (group.max.size)",
    Absence.ID_NEVER_USED: "never used the member id that it was given",
}


def tell(record: RebalanceRecord) -> list[str]:
    """Return the text of one rebalance: a line with time (UTC) and summary, then detail lines."""
    at = time_of(record["started_ms"])
    return [f"{at}  {sentence(record)}", *(f"    {line}" for line in details(record))]


def sentence(record: RebalanceRecord) -> str:
    """Return a summary of the rebalance in one sentence."""
    names = Names(record)
    parts = [_cause(record, names), _members(record), _partitions(record)]
    line = _printable("; ".join(part for part in parts if part))
    noun = "epoch" if has_epochs(record) else "generation"
    return f"{noun} {record['generation']}: {line}"


def has_epochs(record: RebalanceRecord) -> bool:
    """Return whether the members of the group have epochs, as in all groups but classic ones."""
    return bool(record.get("group_type", GroupKind.CLASSIC) != GroupKind.CLASSIC)


def details(record: RebalanceRecord) -> list[str]:
    """Return the lines of details below the summary."""
    names = Names(record)
    lines = [f"after {ms(cause['after_ms'])}: {_cause(cause, names)}" for cause in record["also"]]
    late = [
        f"{names.of(straggler)} after {ms(straggler['after_ms'])}"
        for straggler in record["stragglers"]
    ]
    if late:
        last = "last to get there" if has_epochs(record) else "last to join"
        lines.append(f"{last}: {', '.join(late)}")
    lines += tell_delays(record, names)
    lines += [f"dropped: {names.of(member)} {_why(member['why'])}" for member in record["dropped"]]
    lines += _phases(record)
    lines += _choices(record, names)
    for member in record["members"]:
        lines += _member(record, member, names)
    if record.get("shortened"):
        lines.append("the record was too long, its members are left out")
    return [_printable(line) for line in lines]


def things(record: RebalanceRecord) -> str:
    """Return the noun for assigned items: "task" in streams groups, otherwise "partition"."""
    return "task" if record.get("group_type") == GroupKind.STREAMS else "partition"


def tell_delays(record: RebalanceRecord, names: Names) -> Iterable[str]:
    """Yield a line for each member that revoked partitions or waited for other members."""
    for delay in record.get("delays", ()):
        name = names.of(delay)
        if delay["revoking_ms"] is not None:
            yield f"{name} was giving {things(record)}s up for {ms(delay['revoking_ms'])}"
        if delay["waiting_ms"] is not None:
            held_by = ", ".join(
                f"{names.of_member(holder['member'])} to release {ranges(holder['partitions'])}"
                for holder in delay["waited_for"]
            )
            yield f"{name} waited {ms(delay['waiting_ms'])} for {held_by or 'others'}"


def time_of(timestamp_ms: int) -> str:
    """Return a timestamp as text in UTC, to the millisecond."""
    try:
        at = _EPOCH + timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        return f"{timestamp_ms} ms"
    return at.strftime("%Y-%m-%d %H:%M:%S.") + f"{at.microsecond // 1000:03}Z"


def ms(duration_ms: int) -> str:
    """Return a duration as text, with a space as thousands separator: `10 000 ms`."""
    return f"{duration_ms:,} ms".replace(",", " ")


def ranges(partitions: dict[str, list[int]] | None) -> str:
    """Return partitions as short text: `orders 0-3 5, payments 1`."""
    if not partitions:
        return "nothing"
    return ", ".join(f"{topic} {_runs(indexes)}" for topic, indexes in partitions.items())


def _printable(text: str) -> str:
    """Replace unprintable characters, since clients could send terminal escape sequences."""
    return "".join(
        character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text
    )


def _runs(indexes: list[int]) -> str:
    runs: list[list[int]] = []
    for index in indexes:
        if runs and index == runs[-1][1] + 1:
            runs[-1][1] = index
        else:
            runs.append([index, index])
    return " ".join(str(low) if low == high else f"{low}-{high}" for low, high in runs)


class Names:
    """Short names for the members of one record.

    The name is the instance id, else the client id if no other member has the same client id, else
    the member id with a shortened UUID.
    """

    def __init__(self, record: RebalanceRecord) -> None:
        self._by_client_id: dict[str, set[str]] = {}
        self._by_member: dict[str, RebalanceRecord] = {}
        for client in _clients(record):
            self._by_member.setdefault(client["member"], client)
            self._by_client_id.setdefault(client["client_id"], set()).add(client["member"])

    def of(self, client: RebalanceRecord) -> str:
        """Return the name of a client in the record."""
        if client["instance"] is not None:
            return str(client["instance"])
        client_id = client["client_id"]
        if client_id and len(self._by_client_id.get(client_id, ())) < 2:
            return str(client_id)
        return _UUID.sub(r"-\1", client["member"])

    def of_member(self, member_id: str) -> str:
        """Return the name of the member with this id."""
        client = self._by_member.get(member_id)
        return _UUID.sub(r"-\1", member_id) if client is None else self.of(client)


def _clients(record: RebalanceRecord) -> Iterable[RebalanceRecord]:
    """Yield every client in the record."""
    yield from record["members"]
    for cause in (record, *record["also"]):
        if cause["culprit"] is not None:
            yield cause["culprit"]
    yield from record["dropped"]
    yield from record.get("delays", ())
    yield from record["stragglers"]
    for member in record["members"]:
        if member["member_before"] is not None:
            yield {**member, "member": member["member_before"]}


def _cause(cause: RebalanceRecord, names: Names) -> str:
    """Return the text of a cause: the member and what it did."""
    trigger, culprit = cause["trigger"], cause["culprit"]
    who = "somebody"
    if culprit is not None:
        who = names.of(culprit)
        if culprit["host"]:
            who += f" on {culprit['host']}"
    timeout = ms(cause["timeout_ms"] or 0)
    text = {
        Trigger.MEMBER_JOINED: f"{who} joined",
        Trigger.MEMBER_LEFT: f"{who} left",
        Trigger.MEMBER_EXPIRED: f"{who} missed its session timeout of {timeout}",
        Trigger.MEMBER_REPLACED: f"static member {who} came back under a new member id",
        Trigger.METADATA_CHANGED: f"{who} changed {_change(cause, culprit)}",
        Trigger.LEADER_REJOINED: f"the leader {who} asked to assign anew",
        Trigger.MEMBER_NEVER_SYNCED: f"{who} did not ask for its assignment within {timeout}",
        Trigger.ASSIGNMENT_NOT_WRITTEN: (
            f"the assignment of the leader {who} could not be written ({cause['error']})"
        ),
        Trigger.OVER_CAPACITY: "the group was loaded with more members than group.max.size",
        Trigger.NEVER_REJOINED: f"{who} did not rejoin within {timeout}",
        Trigger.STALLED: f"{who} did not give its {things(cause)}s up within {timeout}",
        Trigger.TOPICS_CHANGED: "the topics that the group reads have changed",
        Trigger.SETTINGS_CHANGED: "the settings of the assignor have changed",
        Trigger.GROUP_UPGRADED: f"{who} was the first to speak the consumer protocol",
        Trigger.GROUP_DOWNGRADED: (
            f"{who} was the last to speak the consumer protocol: the group is a classic one again"
        ),
        Trigger.DELIVERY_LIMIT: _given_up(cause.get("given_up"), who),
        Trigger.RECORDS_REJECTED: _given_up(cause.get("given_up"), who, rejected=True),
        Trigger.COORDINATOR_LOADED: "the coordinator loaded the group",
        Trigger.GROUP_DELETED: "the group was deleted",
        Trigger.GROUP_EXPIRED: "the group ended, as it was empty and its offsets had expired",
    }.get(trigger, f"{who}: {trigger}")
    return f'{text} (reason: "{cause["reason"]}")' if cause["reason"] else text


def _given_up(records: RebalanceRecord | None, who: str, *, rejected: bool = False) -> str:
    """Return the text about records that a share group has given up."""
    if records is None:
        return ""
    first, last = records["first_offset"], records["last_offset"]
    what = f"record {first}" if first == last else f"records {first} to {last}"
    what = f"{what} of {records['topic']} {records['partition']}"
    deliveries = _count(records["deliveries"], "delivery")
    text = f"{what} given up after {deliveries}, the last one to {who}"
    if rejected:
        text = f"{what} rejected by {who} after {deliveries}"
    queue, error = records.get("dead_letter_queue"), records.get("dead_letter_error")
    if error is not None:
        return f"{text}; not written to the dead letter queue {queue}: {error}"
    return text if queue is None else f"{text}; written to the dead letter queue {queue}"


def _change(cause: RebalanceRecord, culprit: RebalanceRecord | None) -> str:
    """Return the text about a member's change: its subscription if changed, else its metadata."""
    for member in cause.get("members", ()):
        if culprit is not None and member["member"] == culprit["member"]:
            added, removed = member["topics_added"], member["topics_removed"]
            changes = [f"+{topic}" for topic in added] + [f"-{topic}" for topic in removed]
            if changes:
                return f"its subscription ({' '.join(changes)})"
    return "its metadata"


def _members(record: RebalanceRecord) -> str:
    """Return the text about members that joined or rejoined, and the outcome."""
    outcome, trigger = record["outcome"], record["trigger"]
    if outcome == RebalanceOutcome.DEAD:
        return ""
    if trigger in (Trigger.DELIVERY_LIMIT, Trigger.RECORDS_REJECTED):
        return ""
    if trigger == Trigger.COORDINATOR_LOADED and outcome != RebalanceOutcome.UNDER_WAY:
        return f"{_count(record['members_after'], 'member')} as before"
    if outcome == RebalanceOutcome.EMPTY:
        return "nobody is left"
    if has_epochs(record):
        return _arrived(record)
    counts = []
    before, joined = record["members_before"], record["members_joined"]
    waited = ms(record["initial_delay_ms"] + record["join_ms"])
    if before:
        counts.append(f"{record['members_rejoined']} of {_count(before, 'member')} rejoined")
    if joined:
        counts.append(f"{joined} joined" if before else f"{_count(joined, 'member')} joined")
    text = f"{', '.join(counts) or 'nobody came'} in {waited}"
    if outcome == RebalanceOutcome.SUPERSEDED:
        text += f", but after {ms(record['sync_ms'])} without an assignment it began anew"
    elif outcome == RebalanceOutcome.UNLOADED:
        text += ", then the coordinator let go of the group"
    return text


def _arrived(record: RebalanceRecord) -> str:
    """Return the text about members that reached their target assignment, and the outcome."""
    arrived = record["members_rejoined"] + record["members_joined"]
    waited = ms(record["assign_ms"] + record["reconcile_ms"])
    total = _count(record["members_after"], "member")
    if record["outcome"] == RebalanceOutcome.UNDER_WAY:
        return f"{arrived} of {total} with the new assignment after {waited} so far"
    text = f"{arrived} of {total} had the new assignment after {waited}"
    if record["outcome"] == RebalanceOutcome.SUPERSEDED:
        text += ", then it began anew"
    elif record["outcome"] == RebalanceOutcome.UNLOADED:
        text += ", then the coordinator let go of the group"
    return text


def _partitions(record: RebalanceRecord) -> str:
    """Return the text about moved, added and revoked partitions."""
    reason, moves = record["partitions_unknown"], record["partitions"]
    noun = things(record)
    if reason is not None:
        return f"partitions unknown ({reason})"
    if moves is None:
        return ""
    total = sum(moves.values())
    if not total:
        return f"no {noun}s assigned" if record["outcome"] == RebalanceOutcome.STABLE else ""
    changed = [(moves[kind], kind) for kind in ("moved", "added", "revoked") if moves[kind]]
    if not changed:
        return f"{_count(total, noun)} stayed"
    (first, kind), *others = changed
    what = _count(total, noun)
    shown = f"{what} {kind}" if first == total else f"{first} of {what} {kind}"
    return ", ".join([shown, *(f"{number} {kind}" for number, kind in others)])


def _count(number: int, noun: str) -> str:
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{number} {noun if number == 1 else plural}"


def _why(why: str) -> str:
    return {absence.value: text for absence, text in _WHY.items()}.get(why, f"({why})")


def _phases(record: RebalanceRecord) -> list[str]:
    phases = (
        ("initial delay", "initial_delay_ms"),
        ("join", "join_ms"),
        ("sync", "sync_ms"),
        ("assignment", "assign_ms"),
        ("reconciliation", "reconcile_ms"),
    )
    durations = [f"{name} {ms(record[field])}" for name, field in phases if record.get(field)]
    return [f"waited: {', '.join(durations)}"] if durations else []


def _choices(record: RebalanceRecord, names: Names) -> list[str]:
    """Return lines about a changed leader and protocol."""
    lines = []
    old, new = record["leader_before"], record["leader"]
    if new is not None and names.of_member(new) != (old and names.of_member(old)):
        lines.append(f"leader: {names.of_member(old)} -> {names.of_member(new)}" if old else
                     f"leader: {names.of_member(new)}")  # fmt: skip
    old, new = record["protocol_before"], record["protocol"]
    if new is not None and new != old:
        lines.append(f"protocol: {old} -> {new}" if old else f"protocol: {new}")
    return lines


def _member(record: RebalanceRecord, member: RebalanceRecord, names: Names) -> list[str]:
    """Return the line about the partitions of a member before and after, if known."""
    name, old, new = names.of(member), member["partitions_before"], member["partitions"]
    if old is None and new is None:
        return []
    if member["status"] == "left":
        return [f"{name}: {ranges(old)} -> gone"]
    if member["status"] == "joined":
        return [f"{name}: new -> {ranges(new)}"]
    came = "" if member["rejoined_ms"] is not None else " (did not rejoin, keeps its place)"
    if has_epochs(record):
        came = "" if member["rejoined_ms"] is not None else " (not there yet)"
    kept = ranges(old) if old == new else f"{ranges(old)} -> {ranges(new)}"
    return [f"{name}: {kept}{came}"]
