"""Text in the Java properties format."""

from pathlib import Path

import pytest

from coordinator_server.config.properties import parse_properties, read_properties


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=1", {"a": "1"}),
        ("a = 1\nb:2\nc 3\nd\n", {"a": "1", "b": "2", "c": "3", "d": ""}),
        ("# no\n! no\n\n  a=1 # part of it", {"a": "1 # part of it"}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a=1,\\\n   2,\\\n   3", {"a": "1,2,3"}),
        ("a=x\\\\\nb=2", {"a": "x\\", "b": "2"}),
        ("a\\ b=1\na\\=b=2\na\\:b=3", {"a b": "1", "a=b": "2", "a:b": "3"}),
        ("a=\\t\\n\\u00e9\\q", {"a": "\t\n\xe9q"}),
        ("a==b", {"a": "=b"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=1\\", {"a": "1"}),
        ("listeners=PLAINTEXT://:9092", {"listeners": "PLAINTEXT://:9092"}),
    ],
)
def test_properties_are_read_as_java_reads_them(text: str, expected: dict[str, str]) -> None:
    """Comments, separators, continued lines and escapes are those of java.util.Properties."""
    assert parse_properties(text) == expected


@pytest.mark.parametrize("text", ["a=\\u12", "a=\\uxyzt"])
def test_a_malformed_escape_is_an_error(text: str) -> None:
    """A \\u without four hexadecimal digits is refused, as in Java."""
    with pytest.raises(ValueError):
        parse_properties(text)


def test_a_byte_order_mark_is_no_part_of_the_first_name(tmp_path: Path) -> None:
    """A byte order mark, which Windows editors write, is not part of the first name."""
    file = tmp_path / "server.properties"
    file.write_bytes(b"\xef\xbb\xbflisteners=PLAINTEXT://127.0.0.1:0\r\n")
    assert read_properties(str(file)) == {"listeners": "PLAINTEXT://127.0.0.1:0"}


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    """A file with a zero byte is refused, because it is not text.

    Without the file's settings a broker would listen on every interface.
    """
    file = tmp_path / "server.properties"
    file.write_bytes(b"a=\x00\x01")
    with pytest.raises(ValueError, match="the file is no text: it has a zero byte"):
        read_properties(str(file))
