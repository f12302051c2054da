"""The model's progress of readers, by the meanings in `pipeline.tables.stalls`; see `model.py`."""

from __future__ import annotations

from itertools import pairwise

from tests.pipeline.model import Model, Place, Standing
from tests.pipeline.story import MINUTE_MS

PATIENCE_MS = 2 * MINUTE_MS


def passed_ms(model: Model, place: Place, offset: int) -> int | None:
    """Return when the log end rose above an offset."""
    above = [one.at_ms for one in model.records.get(place, []) if one.offset >= offset]
    return min(above, default=None)


def stall(model: Model, one: Standing) -> tuple[int, int, int]:
    """Return for how long a reader made no progress while records wait, usually and at most."""
    taken = model.positions[one.key, one.source]
    changes = [each for each in taken if each.before != each.offset]
    waits = []
    for prior, each in pairwise(changes):
        gone_ms = passed_ms(model, one.key[1:], prior.offset)
        if gone_ms is not None and (each.at_ms > model.begin_ms or each is changes[-1]):
            waits.append(max(0, each.at_ms - max(prior.at_ms, gone_ms)))
    usual = sorted(waits)[-2:]
    group = model.groups.get(one.key[0])
    is_empty = group is not None and not group.members
    limit_ms = PATIENCE_MS if is_empty else max(PATIENCE_MS, model.window_ms // 10)
    if usual:
        limit_ms = max(PATIENCE_MS, min(2 * usual[0], model.window_ms))
    since_ms = changes[-1].at_ms
    if one.lag and one.position is not None:
        since_ms = max(since_ms, passed_ms(model, one.key[1:], one.position) or 0)
    if group is not None and not group.members:
        since_ms = max(since_ms, group.state_ms or 0)
    return model.at_ms - since_ms, usual[0] if usual else 0, limit_ms


def is_stalled(model: Model, one: Standing) -> bool:
    """Return whether a reader with lag has made no progress for longer than its limit."""
    if not one.lag:
        return False
    stalled_ms, _, limit_ms = stall(model, one)
    return stalled_ms > limit_ms
