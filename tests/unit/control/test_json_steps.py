"""JSON that is read and written in steps is the JSON of the standard library."""

from __future__ import annotations

import json
from binascii import b2a_base64
from time import thread_time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator_server.control import content, json_steps
from coordinator_server.control.errors import ControlError
from coordinator_server.control.json_steps import read, written, written_compactly
from coordinator_server.control.request import MOST_TOKENS, check_size
from coordinator_server.control.routes import RECORDS_BODY_BYTES
from coordinator_server.steps import run_all
from tests.machine import slowness

PIECE_BYTES = json_steps._PIECE_BYTES
PARTITIONS = [{"start_offset": index, "end_offset": None} for index in range(2_000)]
RECORD = {"key": None, "value": {"text": 'ü"\\' * 300_000, "is_cut": False}}
TEXT = st.text(st.characters(exclude_categories=()), max_size=12)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(TEXT, inner, max_size=5),
    max_leaves=30,
)
MALFORMED = (
    *("", "[", "{", "[1", "[1,", "[1,]", "[1 2]", '{"a"', '{"a":', '{"a":1', '{"a":1,', '{"a":1,}'),
    *(
        "{1:2}",
        '{"a" 1}',
        "[1]x",
        '{"a":1}x',
        "nul",
        '"a',
        '["\\x"]',
        "[1}",
        '{"a":1]',
        ",",
        "[,1]",
    ),
)


@pytest.fixture(autouse=True, scope="module")
def small_sizes() -> Any:
    """Let short values be read and written in several steps."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_steps, "_PIECE_BYTES", 8)
        yield


@given(VALUES, st.sampled_from((None, 1)))
@settings(max_examples=300)
def test_values_survive(value: Any, indent: int | None) -> None:
    """A JSON value is unchanged by writing and reading, in both formats and with spaces."""
    assert json.loads(run_all(written(value))) == value
    compact = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    assert run_all(written_compactly(value)) == compact.encode("utf-8", "surrogatepass")
    text = json.dumps(value, indent=indent)
    assert run_all(read(f" {text}\n".encode())) == value


@pytest.mark.parametrize(
    "value",
    [
        {},
        [],
        "",
        {"a": 1, "b": [True, None, "x", 1.5]},
        {"topics": [{"topic": "t", "partitions": PARTITIONS, "configs": {}}]},
        {"records": [RECORD] * 3, "next": None},
        {"headers": [{"name": "h", "value": ["x" * 100_000] * 40}]},
        {str(number): number for number in range(10_000)},
        {"sent": [[[PARTITIONS]]]},
    ],
)
def test_pieces_are_short(value: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """All pieces together are the JSON of the value, and no piece is long."""
    monkeypatch.setattr(json_steps, "_PIECE_BYTES", PIECE_BYTES)
    assert json.loads(run_all(written(value))) == value
    longest = max(map(len, json_steps._pieces(value)))
    assert longest <= 6 * PIECE_BYTES
    if isinstance(value, dict) and ("topics" in value or "sent" in value):
        assert longest < 200


@pytest.mark.parametrize("text", MALFORMED)
def test_malformed_text_is_refused(text: str) -> None:
    """JSON that json.loads refuses is refused, also after a long array."""
    for whole in (text, '["a long text before", ' + text):
        with pytest.raises(ValueError, match=r"."):
            json.loads(whole)
        with pytest.raises(ValueError, match=r"."):
            run_all(read(whole.encode()))


@pytest.mark.parametrize("text", ["NaN", "[Infinity]", '{"a": ["a long text before", -Infinity]}'])
def test_what_is_not_json_is_refused(text: str) -> None:
    """NaN and infinity, which json.loads reads, are refused."""
    with pytest.raises(ValueError, match="is not a number"):
        run_all(read(text.encode()))


def test_deep_nesting_is_refused() -> None:
    """JSON that is nested too deeply for Python's stack is refused."""
    deep = "[" * 50_000 + "]" * 50_000
    with pytest.raises(ValueError, match="nested"):
        run_all(read(deep.encode()))


@pytest.mark.alone
def test_the_longest_body_is_read_in_one_short_step() -> None:
    """A body of 16 MiB with the most values that `check_size` allows is parsed within 100 ms."""
    strings = ",".join(['"' + "\\u0101" * 26 + '"'] * (MOST_TOKENS // 2 - 3))
    data = f'{{"records": [{strings}, "{"x" * 8_000_000}"]}}'.encode()
    assert len(data) < RECORDS_BODY_BYTES
    run_all(check_size(data))
    times_s = []
    for _ in range(3):
        steps = read(data)
        next(steps)
        began_s = thread_time()
        with pytest.raises(StopIteration):
            next(steps)
        times_s.append(thread_time() - began_s)
    assert min(times_s) / slowness() < 0.1


@pytest.mark.parametrize("size", [0, 1, 2, 3, 11, 12, 13, 35, 36])
def test_contents_survive_in_parts(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Encoding base64 or hexadecimal digits in parts gives the same digits as encoding at once."""
    monkeypatch.setattr(content, "_STEP_BYTES", 12)
    data = bytes(range(size))
    text = run_all(content.to_base64(data))
    assert text == b2a_base64(data, newline=False).decode()
    assert run_all(content.to_bytes(text, "base64", "a value")) == data
    assert run_all(content.content(data, content.View("hex", 100)))["text"] == data.hex()


def test_padding_inside_base64_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Base64 padding before the end is refused, also at the end of a part."""
    monkeypatch.setattr(content, "_STEP_BYTES", 12)
    for text in ("AAAAAAAAAAA=AAAA", "AAAAAAAAAA==AAAA", "AAAA=AAA"):
        with pytest.raises(ControlError, match="a value is base64 or null"):
            run_all(content.to_bytes(text, "base64", "a value"))
