"""Kafka and our parser read JAAS texts alike, and Java and our parser JAAS files.

The texts are those of the unit tests and thousands of random texts.
"""

from __future__ import annotations

import base64
import subprocess
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from coordinator_server.security.credentials.jaas import (
    JaasError,
    LoginModule,
    parse_jaas,
    parse_jaas_file,
)
from tests.oracle.kafka_process import SECONDS, java
from tests.unit.security.credentials.jaas_files import BAD, BAD_FILES, GOOD, GOOD_FILES

pytestmark = pytest.mark.nightly

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
    if len(modules) != 1:  # Kafka accepts only one login module
        return "refused"
    return _told(modules[0])


def _told(module: LoginModule) -> str:
    # Java sorts by UTF-16 units, Python by code points. Both orders are equal without characters
    # above U+FFFF.
    options = (
        f" {_encoded(name)}={_encoded(module.options[name])}" for name in sorted(module.options)
    )
    return _encoded(module.name) + "".join(options)


def _ours_of_file(text: str) -> str:
    try:
        sections = parse_jaas_file(text, {"jaas.known": "known value"})
    except JaasError:
        return "refused"
    return "".join(
        f"{{{name}" + "".join(f"|{_told(module)}" for module in sections[name])
        for name in ("a", "b")
        if sections.get(name)
    )


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def test_texts_mean_the_same() -> None:
    """Kafka refuses the same texts, and reads the same names and values from all other texts."""
    random = Random(19)
    texts = [*GOOD, *BAD]
    for _ in range(COUNT):
        pieces = random.choices(PIECES, k=random.randrange(1, 12))
        texts.append("".join(pieces))
        texts.append(f"a required {''.join(pieces)};")
        texts.append(f'a required x="{"".join(pieces)}";')
    assert not _differences(texts, _ours)


def test_files_mean_the_same() -> None:
    """Java refuses the same files, and reads the same sections and options from all others."""
    random = Random(29)
    texts = [*GOOD_FILES, *BAD_FILES]
    pieces = (*PIECES, "{", "}", "};", "*", "${jaas.known}", "${", "${{x}}", "b {", "a required;")
    for _ in range(COUNT):
        piece = "".join(random.choices(pieces, k=random.randrange(1, 10)))
        texts += [piece, f"a {{ {piece} }};", f'a {{ M required x="{piece}"; }}; b {{ }};']
    # Leave out sections without a name. Java accepts them, but no login can use them.
    texts = [text for text in texts if not _is_nameless(text)]
    assert not _differences(texts, _ours_of_file, "files")


def _is_nameless(text: str) -> bool:
    try:
        parse_jaas_file(text, {})
    except JaasError as error:
        return str(error).endswith("the name of a section is expected")
    return False


def _differences(
    texts: list[str], ours: Callable[[str], str], *arguments: str
) -> list[tuple[str, str, str]]:
    """Return the first texts that Java reads differently, with both readings."""
    command = java(str(Path(__file__).with_name("JaasTexts.java")), *arguments)
    lines = "".join(f"{_encoded(text)}\n" for text in texts)
    done = subprocess.run(
        command, input=lines, capture_output=True, text=True, timeout=SECONDS, check=True
    )
    told = done.stdout.splitlines()
    assert len(told) == len(texts)
    return [
        (text, theirs, ours(text))
        for text, theirs in zip(texts, told, strict=True)
        if theirs != ours(text)
    ][:20]
