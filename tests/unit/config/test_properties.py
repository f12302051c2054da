"""Text in the Java properties format."""

import pytest

from coordinator_server.config.properties import parse_properties


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
