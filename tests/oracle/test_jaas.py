"""JAAS texts mean the same to Kafka and to us: those of the unit tests, and thousands at random."""

from __future__ import annotations

import base64
import subprocess
from pathlib import Path
from random import Random

import pytest

from coordinator_server.credentials.jaas import JaasError, parse_jaas
from tests.oracle.kafka_process import SECONDS, java
from tests.unit.credentials.test_jaas import BAD, GOOD

pytestmark = pytest.mark.slow

PIECES = (
    *("a", "b.C", "required", "OPTIONAL", "x", "=", ";", " ", " ", "\n", '"', "'", "\\", "/", "//"),
    *("/*", "*/", "1", "-", "_", "$", ".", "5.5", "\\n", "\\101", "é", "\u2028", '"v"', "'w'"),
    *('x="y"', "a required ", ' x="y" ', ";", "x=y ", "\r", "\t", "\x00", "\x7f", "\x80", "\xa0"),
)
COUNT = 5000


def _ours(text: str) -> str:
    try:
        modules = parse_jaas(text)
    except JaasError:
        return "refused"
    if len(modules) != 1:  # Kafka takes one alone
        return "refused"
    [module] = modules
    # Java's order of texts is that of UTF-16 units; all here are of the lowest plane.
    options = (
        f" {_encoded(name)}={_encoded(module.options[name])}" for name in sorted(module.options)
    )
    return _encoded(module.name) + "".join(options)


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def test_texts_mean_the_same() -> None:
    """What Kafka refuses is refused, the rest has the same names and values."""
    random = Random(19)
    texts = [*GOOD, *BAD]
    for _ in range(COUNT):
        pieces = random.choices(PIECES, k=random.randrange(1, 12))
        texts.append("".join(pieces))
        texts.append(f"a required {''.join(pieces)};")
        texts.append(f'a required x="{"".join(pieces)}";')
    command = java(str(Path(__file__).with_name("JaasTexts.java")))
    lines = "".join(f"{_encoded(text)}\n" for text in texts)
    done = subprocess.run(
        command, input=lines, capture_output=True, text=True, timeout=SECONDS, check=True
    )
    told = done.stdout.splitlines()
    assert len(told) == len(texts)
    different = [
        (text, theirs, _ours(text))
        for text, theirs in zip(texts, told, strict=True)
        if theirs != _ours(text)
    ]
    assert not different, f"{len(different)}: {different[:20]}"
