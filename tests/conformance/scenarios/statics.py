"""Static members: replaced in every state, fenced, removed, late (KIP-345, KIP-814)."""

from __future__ import annotations

from tests.conformance.stage import Area, Stage

AREA = Area("statics")


@AREA.scenario
def commits_of_both_selves(t: Stage) -> None:
    """In Stable, old and new member id commit in turn; only the new id's offsets are stored."""
    _, b = t.reach("stable", *t.static("A", "B", v=9))
    b.commit([(t.t1, 0, 1)], note="before the restart")
    x = t.again(b, "X")
    x.join_now(note="restarted")
    b.commit([(t.t1, 0, 2)], note="former self")
    b.commit([(t.t1, 0, 3)], inst=None, note="former self, without instance")
    x.commit([(t.t1, 0, 4)], note="new self, before it syncs")
    t.commit([(t.t1, 0, 5)], gen=x.gen, member=x.id, label="new self, without instance")
    t.offs()
