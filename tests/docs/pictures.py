"""Draw the pictures of the documentation as SVG files: `python -m tests.docs.pictures`.

The structure is drawn from the import contract in pyproject.toml, and the states of groups and
transactional ids from the tables that the broker executes, so these pictures cannot become stale.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from typing import NamedTuple

from coordinator_server.core.groups.classic.state import TRANSITIONS
from coordinator_server.core.transactions.metadata import LEGAL_TRANSITIONS, TransactionState
from tests.support import ROOT

FOLDER = ROOT / "docs" / "pictures"
_FRAME = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" \
width="{width:g}" height="{height:g}" font-family="sans-serif" font-size="13" role="img" \
aria-label="{label}">
<rect width="100%" height="100%" fill="#fff"/>
{body}
</svg>
"""


def _svg(label: str, width: float, height: float, body: Iterable[str]) -> str:
    label = escape(label, quote=True)
    return _FRAME.format(label=label, width=width, height=height, body="\n".join(body))


def _text(x: float, y: float, text: str, anchor: str = "middle", colour: str = "#123") -> str:
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" fill="{colour}">{escape(text)}</text>'


def _box(x: float, y: float, width: float, height: float, fill: str = "#e8f0fa") -> str:
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="4" fill="{fill}" '
        f'stroke="#345"/>'
    )


def _line(points: str, attributes: str = "") -> str:
    return f'<path d="{points}" fill="none" stroke="#345" {attributes}/>'


def _tip(x: float, y: float, dx: float, dy: float) -> str:
    """Return an arrowhead at a point, in a direction."""
    angle = math.degrees(math.atan2(dy, dx))
    return (
        f'<path d="M 0 0 L -9 -4 L -9 4 Z" fill="#345" '
        f'transform="translate({x:.0f} {y:.0f}) rotate({angle:.0f})"/>'
    )


# --- structure.svg --------------------------------------------------------------------------------

_LAYERS_CONTRACT = "the packages of the broker, the upper ones import the lower ones"
_BANDS = {
    "container": "programs: image, command line, tools",
    "composition": "the composition root builds every broker",
    "control": "requests: control server; one handler per API, metrics",
    "cluster_reset | cluster_restore": "the brokers of the process",
    "coordinator | rebalances": "coordinators, reading, connections",
    "security": "access, topics and their logs in the background",
    "client": "clock, settings, events; client of the tools",
    "core": "decisions, pure code",
}
"""The first layer of each band of the picture, with a description of the band."""
_COLOURS = ("#e8f0fa", "#eef6ea")


def structure() -> str:
    """Return the packages of the broker, with the packages that they import below them."""
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = pyproject["tool"]["importlinter"]["contracts"]
    (layers,) = [one["layers"] for one in contracts if one["name"] == _LAYERS_CONTRACT]
    missing = set(_BANDS) - set(layers)
    assert not missing, f"not layers of pyproject.toml: {missing}"
    body: list[str] = []
    y, band = 10.0, -1
    for layer in [*layers, "storage", "protocol"]:
        if layer in _BANDS:
            band += 1
            body.append(_text(420, y + 17, _BANDS[layer], "start"))
        if layer == "storage":
            band += 1
            body.append(_text(420, y + 17, "log segments, indexes, recovery", "start"))
        if layer == "protocol":
            body.append(_text(420, y + 17, "messages and record batches as bytes", "start"))
        modules = layer.replace(":", "|").split("|")
        width = (390 - 6 * (len(modules) - 1)) / len(modules)
        for index, module in enumerate(modules):
            x = 10 + index * (width + 6)
            body += [
                _box(x, y, width, 25, _COLOURS[band % 2]),
                _text(x + width / 2, y + 17, module.strip()),
            ]
        y += 31
    body += [_line(f"M 405 15 V {y - 12:g}"), _tip(405, y - 6, 0, 1)]
    return _svg("Packages of the broker; each may import those below", 740, y + 5, body)


# --- request.svg ----------------------------------------------------------------------------------


class Arrow(NamedTuple):
    """A call, or a return (dashed), between two columns."""

    source: str
    target: str
    text: str
    is_return: bool = False


class Note(NamedTuple):
    """A remark in a column, one text per line."""

    column: str
    lines: tuple[str, ...]


class Divider(NamedTuple):
    """A line across all columns, with the condition of the steps below."""

    text: str


Step = Arrow | Note | Divider
_SPACING = 158.0


def sequence(label: str, columns: Mapping[str, str], steps: Sequence[Step]) -> str:
    """Return a sequence diagram: a column per participant, time downwards."""
    x = {key: 75 + _SPACING * index for index, key in enumerate(columns)}
    width = 75 * 2 + _SPACING * (len(columns) - 1)
    body: list[str] = []
    y = 60.0
    for step in steps:
        if isinstance(step, Note):
            height = 16.0 * len(step.lines) + 8
            half = max(len(line) for line in step.lines) * 3.5 + 6
            left = min(max(x[step.column], half + 2), width - half - 2)
            body.append(_box(left - half, y - 8, 2 * half, height, "#fdf6dc"))
            body += [_text(left, y + 8 + 16 * index, line) for index, line in enumerate(step.lines)]
            y += height + 14
        elif isinstance(step, Divider):
            body.append(_line(f"M 5 {y:g} H {width - 5:g}", 'stroke-dasharray="2 4"'))
            body.append(_text(10, y + 16, step.text, "start", "#75350d"))
            y += 36
        else:
            body += _arrow(step, x[step.source], x[step.target], y)
            y += 34
    lines = [_line(f"M {at:g} 40 V {y:g}", 'stroke-opacity="0.35"') for at in x.values()]
    heads = [
        part
        for key, name in columns.items()
        for part in (_box(x[key] - 70, 10, 140, 28), _text(x[key], 28, name))
    ]
    return _svg(label, width, y + 10, [*lines, *heads, *body])


def _arrow(arrow: Arrow, start: float, end: float, y: float) -> list[str]:
    dashes = 'stroke-dasharray="5 4"' if arrow.is_return else ""
    if start == end:
        loop = _line(f"M {start:g} {y:g} h 28 v 14 h -28")
        return [loop, _tip(start, y + 14, -1, 0), _text(start + 34, y + 11, arrow.text, "start")]
    return [
        _line(f"M {start:g} {y:g} H {end:g}", dashes),
        _tip(end, y, end - start, 0),
        _text((start + end) / 2, y - 5, arrow.text),
    ]


def request() -> str:
    """Return a sequence diagram of a request from the client to the log and back."""
    columns = {
        "client": "client",
        "net": "net/connection",
        "dispatch": "net/dispatch",
        "api": "apis/...",
        "coordinator": "group_coordinator",
        "task": "coordinator/task",
        "core": "core/groups",
        "log": "offsets partition",
    }
    steps: list[Step] = [
        Arrow("client", "net", "bytes"),
        Arrow("net", "dispatch", "frame"),
        Arrow("dispatch", "api", "handle(call, request)"),
        Divider("an API of groups:"),
        Arrow("api", "coordinator", "submit"),
        Note("coordinator", ("validate;", "find or create", "the group")),
        Arrow("coordinator", "task", "post"),
        Note("task", ("next iteration of", "the event loop:", "whole mailbox")),
        Arrow("task", "core", "serve(group, request)"),
        Arrow("core", "task", "records, replies", is_return=True),
        Arrow("task", "log", "append all records in one batch"),
        Arrow("task", "core", "replay the records"),
        Arrow("task", "api", "replies, after the append", is_return=True),
        Divider("any other API:"),
        Arrow("api", "api", "topics, logs, configs"),
        Divider("every API:"),
        Arrow("api", "net", "call.reply(response)", is_return=True),
        Arrow("net", "client", "bytes", is_return=True),
    ]
    return sequence("The way of a request", columns, steps)


def share_fetch() -> str:
    """Return a sequence diagram of a ShareFetch: handler, leader, share coordinator."""
    columns = {
        "api": "apis/share_fetch",
        "leader": "share_request",
        "core": "core/share_partitions",
        "log": "partition's log",
        "state": "share_coordinator",
    }
    steps: list[Step] = [
        Note("api", ("1. validate: session,", "acknowledgements,", "permissions")),
        Arrow("api", "leader", "serve(plan)"),
        Arrow("leader", "core", "2. acknowledge"),
        Arrow("leader", "state", "3. read the state, once"),
        Arrow("state", "leader", "start offset, batches", is_return=True),
        Arrow("leader", "log", "4. fetch from the group's next offset"),
        Arrow("leader", "core", "acquire records"),
        Arrow("leader", "state", "5. write the acknowledgements"),
        Note("state", ("append to", "__share_group_state")),
        Arrow("state", "leader", "written, or the changes are undone", is_return=True),
        Note("leader", ("6. a final request", "closes the session")),
        Arrow("leader", "api", "records, results", is_return=True),
        Note("api", ("7. respond",)),
    ]
    return sequence("The way of a ShareFetch", columns, steps)


# --- state diagrams -------------------------------------------------------------------------------

_WIDTH, _HEIGHT = 160.0, 30.0
_Places = Mapping[str, tuple[float, float]]


def states(label: str, places: _Places, moves: Iterable[tuple[str, str]]) -> str:
    """Return a state diagram with the centre of each state given, and curved transitions."""
    body = []
    for source, target in moves:
        (x1, y1), (x2, y2) = places[source], places[target]
        if source == target:
            body += [_line(f"M {x1 - 20:g} {y1 - 15:g} c -15 -30 55 -30 40 0")]
            body += [_tip(x1 + 20, y1 - 15, -0.4, 1)]
            continue
        distance = math.hypot(x2 - x1, y2 - y1)
        # Each curve bends to its left, so that transitions in opposite directions do not overlap.
        bend_x = (x1 + x2) / 2 + (y2 - y1) / distance * 26
        bend_y = (y1 + y2) / 2 - (x2 - x1) / distance * 26
        (x1, y1), (x2, y2) = _border(x1, y1, bend_x, bend_y), _border(x2, y2, bend_x, bend_y)
        body.append(_line(f"M {x1:.0f} {y1:.0f} Q {bend_x:.0f} {bend_y:.0f} {x2:.0f} {y2:.0f}"))
        body.append(_tip(x2, y2, x2 - bend_x, y2 - bend_y))
    for name, (x, y) in places.items():
        body += [_box(x - _WIDTH / 2, y - _HEIGHT / 2, _WIDTH, _HEIGHT), _text(x, y + 5, name)]
    width = max(x for x, _ in places.values()) + _WIDTH / 2 + 10
    height = max(y for _, y in places.values()) + _HEIGHT / 2 + 30
    return _svg(label, width, height, body)


def _border(x: float, y: float, to_x: float, to_y: float) -> tuple[float, float]:
    """Return where the line from a state's centre to a point leaves the state's box."""
    dx, dy = to_x - x, to_y - y
    scale = min(_WIDTH / 2 / abs(dx) if dx else 1e9, _HEIGHT / 2 / abs(dy) if dy else 1e9)
    return x + dx * scale, y + dy * scale


def classic_groups() -> str:
    """Return the states of a classic group."""
    places = {
        "Empty": (90.0, 140.0),
        "PreparingRebalance": (350.0, 40.0),
        "CompletingRebalance": (610.0, 140.0),
        "Stable": (500.0, 260.0),
        "Dead": (220.0, 260.0),
    }
    moves = [(source.value, target.value) for source, target in TRANSITIONS]
    return states("States of a classic group", places, moves)


def transactions() -> str:
    """Return the states of a transactional id, without its end."""
    places = {
        "Empty": (90.0, 220.0),
        "Ongoing": (350.0, 150.0),
        "PrepareCommit": (610.0, 110.0),
        "CompleteCommit": (350.0, 40.0),
        "PrepareAbort": (610.0, 230.0),
        "CompleteAbort": (350.0, 300.0),
    }
    moves = [
        (source.label, target.label)
        for source, targets in LEGAL_TRANSITIONS.items()
        for target in sorted(targets)
        if target is not TransactionState.DEAD
    ]
    return states("States of a transactional id", places, moves)


PICTURES: dict[str, Callable[[], str]] = {
    "structure": structure,
    "request": request,
    "share-fetch": share_fetch,
    "classic-groups": classic_groups,
    "transactions": transactions,
}


if __name__ == "__main__":
    for name, draw in PICTURES.items():
        (FOLDER / f"{name}.svg").write_text(draw(), encoding="utf-8")
