"""The model's verdicts, by the rules in `pipeline.tables.status`; see `model.py`.

A verdict comes with the text of the column `rule`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tests.pipeline.model import Group, Model, Position, Row, Standing
from tests.pipeline.model_stalls import PATIENCE_MS, passed_ms, stall

EXPIRES_MS = 604_800_000
SOON_MS = 10_000
WORST_LAST = ("OK", "WARN", "STALL", "STOP", "REWIND")
ALLOWED = 0


@dataclass(frozen=True)
class Seen:
    """A commit and the log end at its time."""

    commit: Position
    end: int | None

    @property
    def lag(self) -> int | None:
        """Return the lag at the time of the commit."""
        return None if self.end is None else max(0, self.end - self.commit.offset)


def status(model: Model) -> Iterator[Row]:
    """Yield the rows of `status`: one per partition, and one per group."""
    rows: dict[str, list[Row]] = {}
    for one in model.standings:
        if one.source == "group":
            rows.setdefault(one.key[0], []).append(_partition(model, one))
    for group, partitions in rows.items():
        yield from partitions
        yield _group(model, group, partitions)


def _partition(model: Model, one: Standing) -> Row:
    taken = model.positions.get((one.key, "group"), [])
    seen = [Seen(commit, model.replayed_end(one.key[1:], commit.at_ms)) for commit in taken[-1:]]
    inside = [
        Seen(commit, model.replayed_end(one.key[1:], commit.at_ms))
        for commit in model.recent((one.key, "group"))
    ]
    lags = [each.lag for each in inside if each.lag is not None]
    verdict, words, evidence = _verdict(model, one, taken, inside)
    risen = None
    if seen and seen[0].end is not None and one.end is not None:
        risen = max(0, one.end - seen[0].end)
    return {
        "group": one.key[0],
        "topic": one.key[1],
        "partition": one.key[2],
        "status": verdict,
        "rule": words,
        "lag": one.lag,
        "allowed_lag": ALLOWED,
        "window_ms": model.window_ms,
        "commits": len(inside),
        "complete": (inside[-1].commit.at_ms - inside[0].commit.at_ms) / model.window_ms
        if inside
        else 0.0,
        "first_commit_ms": inside[0].commit.at_ms if inside else None,
        "last_commit_ms": taken[-1].at_ms if taken else None,
        "first_lag": inside[0].lag if inside else None,
        "min_lag": min(lags, default=None),
        "max_lag": max(lags, default=None),
        "produced_since_commit": risen,
        "members": group.members if (group := model.groups.get(one.key[0])) else None,
        "evidence_offset": evidence,
    }


def _verdict(
    model: Model, one: Standing, taken: list[Position], inside: list[Seen]
) -> tuple[str, str, int | None]:
    """Return verdict, text and evidence offset of the first rule that holds."""
    if one.state == "NO_COMMIT":
        return "OK", "no commit to judge by", None
    last = taken[-1]
    if one.state == "NO_TOPIC":
        return "OK", "the topic is not known", last.order
    assert one.lag is not None
    if one.state == "AHEAD" and not model.past:
        assert one.position is not None
        assert one.end is not None
        words = f"committed {one.position - one.end} above the log end: the topic was created again"
        return "WARN", f"{words}, or this is no whole copy", last.order
    if one.lag <= ALLOWED:
        return "OK", "no more to read than is allowed", last.order
    group = model.groups.get(one.key[0])
    members = group.members if group is not None else 0
    if not members and model.at_ms - last.at_ms > EXPIRES_MS:
        words = "expired: nobody committed for long, see abandoned_groups"
        return "OK", words, last.order
    if group is not None and members and one.key[1] not in group.subscribed:
        return "OK", "no member subscribes to the topic any more", last.order
    known = model.records[one.key[1:]]
    if not any(record.offset >= last.offset for record in known) and known:
        return "OK", "only offsets without data are left to read", last.order
    owned = group is not None and one.key[1:] in group.assigned
    waited_ms = _waited(model, one, last, group)
    stalled_ms, usual_ms, limit_ms = stall(model, one)
    behind = f"{one.lag} records to read"
    seconds = f"{waited_ms // 1000} s"
    if not owned and waited_ms > limit_ms:
        who = "no member owns the partition"
        if group is None:
            who = "a standalone consumer committed nothing more"
        elif not members:
            who = "the group is empty"
        return "STOP", f"{who} while {behind} wait for {seconds}", last.order
    back = [each.commit for each in inside if (each.commit.before or 0) > each.commit.offset]
    highest = max((max(each.commit.offset, each.commit.before or 0) for each in inside), default=0)
    if back and last.offset < highest:
        words = f"committed below where it was, and did not come back: {behind}"
        return "REWIND", words, back[-1].order
    verdict, words = _slow(model, one, inside, behind, owned=owned)
    if words:
        return verdict, words, last.order
    if not owned and waited_ms > SOON_MS:
        words = f"too early to judge: {behind} wait for {seconds}, STOP after {limit_ms // 1000} s"
    elif stalled_ms > max(SOON_MS, 2 * usual_ms):
        words = f"too early to judge: {behind} wait for {stalled_ms // 1000} s, STALL after"
        words += f" {limit_ms // 1000} s"
    else:
        recent = [each for each in inside if each.commit.at_ms > model.at_ms - PATIENCE_MS]
        words = f"on its way: {behind}"
        if recent and (recent[-1].lag or 0) > (recent[0].lag or 0):
            words = f"the lag rose from {recent[0].lag} to {one.lag} records"
    return "OK", words, last.order


def _waited(model: Model, one: Standing, last: Position, group: Group | None) -> int:
    """Return for how long records have waited since the last commit, in ms."""
    assert one.position is not None
    since_ms = max(last.at_ms, passed_ms(model, one.key[1:], one.position + ALLOWED) or 0)
    if group is not None and not group.members:
        since_ms = max(since_ms, group.state_ms or 0)
    return model.at_ms - since_ms


def _slow(
    model: Model, one: Standing, inside: list[Seen], behind: str, *, owned: bool
) -> tuple[str, str]:
    """Return verdict and text of rules 6 to 8; no text if none holds."""
    stalled_ms, _, limit_ms = stall(model, one)
    seconds = f"{stalled_ms // 1000} s"
    last = model.positions[one.key, one.source][-1]
    if stalled_ms > limit_ms and model.at_ms - last.at_ms <= limit_ms:
        return "STALL", f"commits the same offset again with {behind} for {seconds}"
    if stalled_ms > limit_ms and owned:
        return "STALL", f"a live member committed nothing while {behind} wait for {seconds}"
    for span_ms, least in ((model.window_ms, 3), (PATIENCE_MS, 6)):
        begin_ms = model.at_ms - span_ms
        seen = [each for each in inside if each.commit.at_ms > begin_ms and each.lag is not None]
        tenths = {(each.commit.at_ms - begin_ms - 1) * 10 // span_ms: each for each in seen}
        last_ones = [each for _, each in sorted(tenths.items())]
        trend = [each.lag or 0 for each in last_ones]
        rising = len(trend) >= least and trend == sorted(trend) and trend[-1] > trend[0]
        if rising:
            assert one.position is not None
            since_ms = passed_ms(model, one.key[1:], one.position + ALLOWED)
            is_late = since_ms is not None and model.at_ms - since_ms > PATIENCE_MS
            written = ((last_ones[-1].end or 0) - (last_ones[0].end or 0)) / (len(trend) - 1)
            rising = is_late or trend[-1] - trend[0] > written
        if rising and min(each.lag or 0 for each in seen) > ALLOWED:
            return "WARN", f"commits, but the lag never falls: {behind}"
    return "OK", ""


def _group(model: Model, group: str, partitions: list[Row]) -> Row:
    """Return the group's row, with the verdict of its worst partition; ties go to the most lag."""

    def known(name: str) -> list[int]:
        return [row[name] for row in partitions if row[name] is not None]

    worst = min(
        partitions,
        key=lambda row: (
            -WORST_LAST.index(row["status"]),
            1 if row["lag"] is None else -row["lag"],
            row["topic"],
            row["partition"],
        ),
    )
    verdict = worst["status"]
    said = worst["rule"] if verdict == "OK" else f"{verdict}, {worst['rule']}"
    return {
        "group": group,
        "topic": None,
        "partition": None,
        "status": verdict if verdict in ("OK", "WARN") else "ERR",
        "rule": f"{worst['topic']}-{worst['partition']}: {said}",
        "lag": sum(known("lag")) if known("lag") else None,
        "allowed_lag": ALLOWED,
        "window_ms": model.window_ms,
        "commits": sum(known("commits")),
        "complete": min(row["complete"] for row in partitions),
        "first_commit_ms": min(known("first_commit_ms"), default=None),
        "last_commit_ms": max(known("last_commit_ms"), default=None),
        "first_lag": None,
        "min_lag": None,
        "max_lag": None,
        "produced_since_commit": sum(known("produced_since_commit"))
        if known("produced_since_commit")
        else None,
        "members": worst["members"],
        "evidence_offset": worst["evidence_offset"],
    }
