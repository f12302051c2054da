"""The schema of `__group_events` matches its documentation.

`python -m tests.unit.rebalances.test_schema` rewrites the documentation.
"""

from pathlib import Path

import pytest

from coordinator_server.rebalances.schema import OBJECTS, SCHEMA_VERSION, describe
from tests.generated_parts import with_part
from tests.unit.core.groups.classic.explained import ExplainedGroup
from tests.unit.rebalances.schema import faults

PAGE = Path(__file__).parents[3] / "docs" / "rebalances.md"


def rendered(page: str) -> str:
    """Return the page with its generated part up to date."""
    return with_part(page, "schema", describe())


def test_the_page_shows_the_schema() -> None:
    """The generated part of docs/rebalances.md is up to date."""
    page = PAGE.read_text(encoding="utf-8")
    assert page == rendered(page), "run: python -m tests.unit.rebalances.test_schema"


def test_every_type_is_known() -> None:
    """A field's type is one of JSON, `partitions`, or an object of the schema."""
    plain = {"string", "integer", "boolean", "partitions"}
    for fields in OBJECTS.values():
        for one in fields:
            assert one.kind.rstrip("?").removesuffix("[]") in plain | set(OBJECTS), one


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"schema": "1"}, "record.schema: '1' is no integer"),
        ({"also": None}, "record.also: None is no list"),
        ({"dropped": [{}]}, "record.dropped[0]: {} has not the fields of dropped"),
        ({"culprit": {"member": "a"}}, "record.culprit: {'member': 'a'} has not the fields"),
    ],
)
def test_the_check_sees_what_is_wrong(change: dict[str, object], fault: str) -> None:
    """The check reports a value whose type differs from the documented type."""
    group = ExplainedGroup()
    group.stable("A")
    record = group.record()
    assert faults(record) == []
    assert faults(record | change)[0].startswith(fault)


def test_the_version_stands_in_the_record() -> None:
    """The version comes first in the record, for readers."""
    group = ExplainedGroup()
    group.stable("A")
    record = group.record()
    assert next(iter(record)) == "schema"
    assert record["schema"] == SCHEMA_VERSION == 1


if __name__ == "__main__":
    PAGE.write_text(rendered(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
