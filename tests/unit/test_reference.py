"""The reference release of Kafka is defined in one place, and the docs agree."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from protocol import REFERENCE_VERSION

ROOT = Path(__file__).parents[2]
PAGES = (
    "README.md",
    *(
        f"docs/{name}.md"
        for name in ("conformance", "coordinator", "protocol", "settings", "tools", "topics")
    ),
)


@pytest.mark.parametrize("page", PAGES)
def test_the_docs_name_the_reference_version(page: str) -> None:
    """Each page that names the followed release names the release in the constant."""
    named = re.findall(r"Apache Kafka (\d+\.\d+[.\d]*\d)", (ROOT / page).read_text())
    assert set(named) == {REFERENCE_VERSION}


def test_the_code_names_it_once() -> None:
    """Only one module, in the protocol package, has the version number."""
    rooms = ("coordinator_server", "protocol", "storage", "pipeline")
    modules = [path for room in rooms for path in (ROOT / room).rglob("*.py")]
    naming = [path for path in modules if REFERENCE_VERSION in path.read_text()]
    assert naming == [ROOT / "protocol" / "__init__.py"]
