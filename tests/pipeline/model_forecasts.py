"""The model's forecasts of expiry and data loss, and its replay plan; see `model.py`."""

from __future__ import annotations

from collections.abc import Iterator

from tests.pipeline.model import CHECK_MS, RETENTION_MS, Key, Model, Row, named
from tests.pipeline.story import Commit


def offset_expiry_forecast(model: Model) -> Iterator[Row]:
    """Yield the rows of `offset_expiry_forecast`, by Kafka's rules of expiry."""
    for key, events in model.living.items():
        one, said = events[-1]
        base, base_ms, expires_ms = _expiry(model, key, said, one.at_ms)
        assert said.offset is not None
        start, end = model.log_start(key[1:]), model.log_end(key[1:])
        yield {
            **named(key),
            "committed_offset": said.offset,
            "base": base,
            "base_ms": base_ms,
            "expires_ms": expires_ms,
            "latest_ms": None if expires_ms is None else expires_ms + CHECK_MS,
            "expires_in_ms": None if expires_ms is None else expires_ms - model.at_ms,
            "skipped_by_latest": None if end is None else max(0, end - said.offset),
            "repeated_by_earliest": None if start is None else max(0, said.offset - start),
        }


def _expiry(
    model: Model, key: Key, said: Commit, commit_ms: int
) -> tuple[str, int | None, int | None]:
    group = model.groups.get(key[0])
    if group is not None and group.members and key[1] in group.subscribed:
        return "never", None, None
    if said.expires_ms is not None:
        return "own", commit_ms, said.expires_ms
    if group is not None and not group.modern and not group.members:
        assert group.state_ms is not None
        return "empty", group.state_ms, group.state_ms + RETENTION_MS
    return "commit", commit_ms, commit_ms + RETENTION_MS


def data_loss_forecast(model: Model) -> Iterator[Row]:
    """Yield the rows of `data_loss_forecast`; topics of a story have no known retention."""
    for one in model.standings:
        size = None
        if one.end is not None and one.start is not None and one.end > one.start:
            size = one.end - one.start
        verdict = "unknown"
        if one.state == "LOSS":
            verdict = "losing"
        elif one.lag == 0:
            verdict = "safe"
        yield {
            **named(one.key),
            "lag": one.lag,
            "used": None if size is None or one.lag is None else one.lag / size,
            "retention_ms": None,
            "slack_ms": None,
            "loss_at_ms": None,
            "catch_up_seconds": model.rate(one)["catch_up_seconds"],
            "verdict": verdict,
        }


def replay_plan(model: Model) -> Iterator[Row]:
    """Yield the rows of `replay_plan`."""
    if model.replay_from_ms is None:
        return
    for one in model.standings:
        if one.source != "group":
            continue
        place = one.key[1:]
        end = model.log_end(place)
        there = [
            record
            for record in model.records.get(place, [])
            if end is not None and record.offset < end
        ]
        wanted = [record.offset for record in there if record.at_ms >= model.replay_from_ms]
        target = min(wanted, default=end)
        group = model.groups.get(one.key[0])
        refusal = None
        if group is not None and group.members:
            refusal = f"the group is not empty: members {group.members}"
        elif end is None:
            refusal = "the topic is not known"
        yield {
            **named(one.key),
            "replay_from_ms": model.replay_from_ms,
            "committed_offset": one.position,
            "target_offset": target,
            "change": None if target is None or one.position is None else target - one.position,
            "records_to_read": None if target is None or end is None else end - target,
            "bytes_to_read": None
            if target is None
            else sum(record.record_bytes for record in there if record.offset >= target),
            "allowed": refusal is None,
            "refusal": refusal,
        }
