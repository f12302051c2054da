"""FindCoordinator and ListGroups of a scenario's groups in short form."""

from __future__ import annotations

from typing import Any

from tests.conformance.stage import Stage

_FIELDS = ("protocol_type", "group_state", "group_type")


def find_coordinator(t: Stage, version: int, label: str | None = None, **fields: Any) -> Any:
    """Record and return FindCoordinator's answer.

    A coordinator in Metadata is shown as "a broker of the cluster".
    """
    answer = t.silently(t.ask, "FindCoordinator", version, fields)
    shown = t.norm(answer) if isinstance(answer, dict) else answer
    if isinstance(answer, dict):
        for one in shown.get("coordinators", [shown]):
            address = tuple(one.pop(field) for field in ("node_id", "host", "port"))
            known = "none" if address == (-1, "", -1) else "other"
            one["node"] = "a broker of the cluster" if address in t.env.brokers else known
    return t.rec(label or f"FindCoordinator v{version}", shown)


def list_groups(t: Stage, version: int, label: str = "mine", **fields: Any) -> Any:
    """Record and return ListGroups: the error, and each group's type, state and kind."""
    answer = t.quiet("ListGroups", version, fields)
    if not isinstance(answer, dict):
        return t.rec(label, answer)
    groups = [
        [t.sub(one["group_id"]), *(one.get(field) for field in _FIELDS)]
        for one in answer["groups"]
        if one["group_id"].startswith(t.g)
    ]
    error = t.norm({"error_code": answer["error_code"]})["error_code"]
    return t.rec(label, {"error": error, "groups": sorted(groups)})


def group_in_each_state(t: Stage) -> None:
    """Create a group in each state, named after it, and one with only offsets, unrecorded."""
    own = t.g
    for state in ("empty", "stable", "completing", "preparing"):
        t.g = t.group(state)
        if state == "empty":
            t.empty()
        else:
            t.reach(state, "A")
        t.g = own
    t.setup(t.commit, [(t.t1, 0, 1)], group=t.group("standalone"))
