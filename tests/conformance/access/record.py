"""Writes and reads the file with Kafka's answers."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from tests.conformance.access.case import Case
from tests.conformance.access.comparable import comparable
from tests.conformance.access.grants import acls_of
from tests.conformance.access.matrix import CASES, Key, cells_of

PATH = Path(__file__).with_name("kafka.json.gz")


def write(answers: Mapping[Key, Any], path: Path = PATH) -> None:
    """Write each distinct answer once, and its number for each case, version and grant."""
    numbers: dict[str, int] = {}
    cells: dict[str, dict[str, dict[str, int]]] = {}
    for (case, version, grant), answer in sorted(answers.items()):
        text = json.dumps(answer, sort_keys=True)
        number = numbers.setdefault(text, len(numbers))
        cells.setdefault(case, {}).setdefault(str(version), {})[grant] = number
    whole = {
        "answers": [json.loads(text) for text in numbers],
        "cells": cells,
        "acls": {case.name: digest(case) for case in CASES if case.name in cells},
    }
    data = json.dumps(whole, sort_keys=True, separators=(",", ":")).encode()
    path.write_bytes(gzip.compress(data, mtime=0))


def read(path: Path = PATH) -> dict[Key, Any]:
    """Return the answers from a file of `write`."""
    if not path.exists():
        return {}
    whole = json.loads(gzip.decompress(path.read_bytes()))
    answers = whole["answers"]
    return {
        (case, int(version), grant): answers[number]
        for case, versions in whole["cells"].items()
        for version, grants in versions.items()
        for grant, number in grants.items()
    }


def recorded_digests(path: Path = PATH) -> dict[str, str]:
    """Return the digests of the cases from the time of the recording."""
    digests: dict[str, str] = json.loads(gzip.decompress(path.read_bytes()))["acls"]
    return digests


def digest(case: Case) -> str:
    """Return a short digest of the ACLs of a case's cells, which reveals changes."""
    lines: Iterable[str] = (
        f"{cell.key} {sorted(map(tuple, acls_of(cell)))}" for cell in cells_of([case])
    )
    return sha256("\n".join(lines).encode()).hexdigest()[:12]


def differences(
    expected: Mapping[Key, Any], actual: Mapping[Key, Any]
) -> dict[Key, tuple[Any, Any]]:
    """Return the expected and the actual answers of the cells that differ."""
    found = {}
    for key, answer in actual.items():
        pair = (comparable(key[0], expected.get(key)), comparable(key[0], answer))
        if pair[0] != pair[1]:
            found[key] = pair
    return found
