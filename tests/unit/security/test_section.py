"""Sections of security.json with very many entries: what a change of one entry does."""

from __future__ import annotations

import json

import pytest

from coordinator_server.security import section
from coordinator_server.security.section import Section
from storage.memory_disk import MemoryDisk
from storage.security_state import SECURITY_FILE, SecurityState, to_text


def test_a_change_makes_the_texts_of_what_changes_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other entries were made into text when they came; the file has all of them."""
    disk = MemoryDisk()
    disk.mkdir("/d")
    made: list[object] = []

    def counting(entry: object) -> str:
        made.append(entry)
        return to_text(entry)

    monkeypatch.setattr(section, "to_text", counting)
    before: dict[int, dict[str, int | str]] = {n: {"n": n} for n in range(1000)}
    many = Section(SecurityState(disk, "/d"), "s", before)
    assert len(made) == 1000
    many.change({7: {"n": "seven"}, 1000: {"n": 1000}}, [3, 5000])
    assert len(made) == 1002
    entries = json.loads(disk.read_file(f"/d/{SECURITY_FILE}"))["s"]
    expected: list[dict[str, int | str]] = [{"n": n} for n in range(1001) if n != 3]
    expected[6] = {"n": "seven"}
    assert entries == expected == SecurityState(disk, "/d").section("s")
    many.clear()
    assert SecurityState(disk, "/d").section("s") == []
