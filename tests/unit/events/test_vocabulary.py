"""The vocabulary and the code agree on every event and every field."""

from __future__ import annotations

import re

import pytest

from coordinator_server.events.vocabulary import ERROR, LEVELS, VOCABULARY
from tests.support import ROOT
from tests.unit.events.emitted import Emitted, Program, UnseenError

SERVER = ROOT / "coordinator_server"


@pytest.fixture(scope="module")
def emitted() -> list[Emitted]:
    """Return every event of the product."""
    sources = {path.relative_to(ROOT).as_posix(): path.read_text() for path in SERVER.rglob("*.py")}
    # This file calls the `emit` of OpenTelemetry's logger, and only for events that LOG has
    # written.
    del sources["coordinator_server/tracing/export.py"]
    return list(Program(sources).emitted())


def test_what_is_emitted_is_in_the_vocabulary(emitted: list[Emitted]) -> None:
    """Every emitted event and field is in the vocabulary; only errors have a traceback."""
    assert not {one.where: one.name for one in emitted if one.name not in VOCABULARY}
    unknown = {one.where: one.fields - set(VOCABULARY[one.name].fields) for one in emitted}
    assert not {where: fields for where, fields in unknown.items() if fields}
    assert all(VOCABULARY[one.name].level == ERROR for one in emitted if one.has_traceback)


def test_what_is_in_the_vocabulary_is_emitted(emitted: list[Emitted]) -> None:
    """Every event and field of the vocabulary is emitted somewhere."""
    found: dict[str, set[str]] = {}
    for one in emitted:
        found.setdefault(one.name, set()).update(one.fields)
    assert found == {name: set(event.fields) for name, event in VOCABULARY.items()}


def test_events_are_named_alike() -> None:
    """Event names are a noun and a participle; levels have Python's names."""
    past, present = r"(\w+ed|left|reset)", r"\w+ing"
    for name, event in VOCABULARY.items():
        assert re.fullmatch(rf"[a-z_]+\.({past}|{present})", name), name
        assert event.level in LEVELS.values()
        assert len(set(event.fields)) == len(event.fields)
        assert all(re.fullmatch("[a-z][a-z_]*", field) for field in event.fields)


def test_no_module_beside_the_server_has_a_log() -> None:
    """Only the server's modules write events; protocol, storage and pipeline write none."""
    for room in ("protocol", "storage", "pipeline"):
        for path in (ROOT / room).rglob("*.py"):
            assert "events.log" not in path.read_text(), path


CONNECTIONS = """
class Connections:
    def report(self, event: str, reason: str, api: str | None = None) -> None:
        fields = {"reason": reason}
        if api is not None:
            fields["api"] = api
        LOG.emit(event, **fields)

    def close(self) -> None:
        self.report("connection.closed", "idle")
"""


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ('def f():\n LOG.emit("a.b", x=1)', {"a.b": {"x"}}),
        ('def f():\n LOG.emit("a.b" if x else "c.d")', {"a.b": set(), "c.d": set()}),
        ('def f():\n name = "a.b"\n LOG.emit(name)', {"a.b": set()}),
        (
            'def f(event):\n name = "a.b" if event else "c.d"\n LOG.emit(name)',
            {"a.b": set(), "c.d": set()},
        ),
        ('def f(effects):\n effects.event("a.b", group=1)', {"a.b": {"group"}}),
        ("def f(effects):\n for name, one in effects.events:\n  LOG.emit(name, **one)", {}),
        (
            'def g(x):\n fields = {"a": 1}\n return {k: v for k, v in fields.items() if v}\n'
            'def f():\n LOG.emit("a.b", **g(1))',
            {"a.b": {"a"}},
        ),
        (
            'def say(name):\n LOG.emit(name)\ndef f():\n say("a.b")\n say(name="c.d")',
            {"a.b": set(), "c.d": set()},
        ),
        (
            CONNECTIONS + '\ndef f(shared):\n shared.report("connection.refused", "full", api="x")',
            {"connection.closed": {"reason", "api"}, "connection.refused": {"reason", "api"}},
        ),
    ],
    ids=range(9),
)
def test_names_and_fields_are_followed(source: str, expected: dict[str, set[str]]) -> None:
    """Names and fields are followed through variables, parameters, choices and functions."""
    found = {one.name: set(one.fields) for one in Program({"m.py": source}).emitted()}
    assert found == expected


@pytest.mark.parametrize(
    "source",
    [
        'def f(x):\n LOG.emit("a." + x)',
        "def f(x):\n LOG.emit(x.name)",
        "def f(x):\n LOG.emit(x)",
        'def f(x):\n LOG.emit("a.b", **x)',
        'def f(x):\n LOG.emit("a.b", **x._asdict())',
    ],
)
def test_what_cannot_be_followed_is_an_error(source: str) -> None:
    """A name or field that cannot be found in the source is an error."""
    with pytest.raises(UnseenError):
        list(Program({"m.py": source}).emitted())


def test_the_log_is_not_handed_round() -> None:
    """`LOG.emit` is never passed as a value, which would hide its calls."""
    with pytest.raises(AssertionError, match="not called"):
        Program({"m.py": "callback(LOG.emit)"})
