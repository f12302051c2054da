"""The file of Kafka's answers."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.conformance.access.comparable import comparable
from tests.conformance.access.matrix import Key

PATH = Path(__file__).with_name("kafka.json.gz")


def write(answers: Mapping[Key, Any], path: Path = PATH) -> None:
    """Store answers: each different one once, and its number by case, version and grant."""
    numbers: dict[str, int] = {}
    cells: dict[str, dict[str, dict[str, int]]] = {}
    for (case, version, grant), answer in sorted(answers.items()):
        text = json.dumps(answer, sort_keys=True)
        number = numbers.setdefault(text, len(numbers))
        cells.setdefault(case, {}).setdefault(str(version), {})[grant] = number
    whole = {"answers": [json.loads(text) for text in numbers], "cells": cells}
    data = json.dumps(whole, sort_keys=True, separators=(",", ":")).encode()
    path.write_bytes(gzip.compress(data, mtime=0))


def read(path: Path = PATH) -> dict[Key, Any]:
    """What `write` has stored."""
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


def differences(
    expected: Mapping[Key, Any], actual: Mapping[Key, Any]
) -> dict[Key, tuple[Any, Any]]:
    """What is expected and what there is, of the cells that differ."""
    found = {}
    for key, answer in actual.items():
        pair = (comparable(key[0], expected.get(key)), comparable(key[0], answer))
        if pair[0] != pair[1]:
            found[key] = pair
    return found
