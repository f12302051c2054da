"""Parses input lines into records: Kafka's LineMessageReader and its properties."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from coordinator_server.kafka_tools.frame import ToolError

_KAFKA_EXCEPTION = "org.apache.kafka.common.KafkaException"

Headers = list[tuple[str, bytes | None]]


class TypedRecord(NamedTuple):
    """A record parsed from an input line."""

    key: bytes | None
    value: bytes | None
    headers: Headers


class LineReader:
    """Parses lines of the form `HEADERS<tab>KEY<tab>VALUE`; the properties select the parts.

    Raises ToolError for contradictory properties.
    """

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._parse_key = _is_true(properties, "parse.key")
        self._parse_headers = _is_true(properties, "parse.headers")
        self._ignore_error = _is_true(properties, "ignore.error")
        self._key_separator = properties.get("key.separator", "\t")
        self._headers_delimiter = properties.get("headers.delimiter", "\t")
        self._headers_separator = properties.get("headers.separator", ",")
        self._headers_key_separator = properties.get("headers.key.separator", ":")
        self._null_marker = properties.get("null.marker")
        separators = {
            "headers.delimiter": self._headers_delimiter,
            "headers.separator": self._headers_separator,
            "headers.key.separator": self._headers_key_separator,
        }
        names = list(separators)
        for first, second in ((0, 1), (0, 2), (1, 2)):
            if separators[names[first]] == separators[names[second]]:
                raise _error(f"{names[first]} and {names[second]} may not be equal")
        order = ("headers.separator", "headers.delimiter", "headers.key.separator")
        for name in ("key.separator", *order):
            if self._null_marker == separators.get(name, self._key_separator):
                raise _error(f"null.marker and {name} may not be equal")
        try:
            self._headers_pattern = re.compile(self._headers_separator)
        except re.error as error:
            name = "java.util.regex.PatternSyntaxException"
            raise ToolError(name, f"{error}: {self._headers_separator}") from None

    def read(self, lines: Iterable[str]) -> Iterator[TypedRecord]:
        """Yield the records of lines; a line may end in a newline.

        Raises ToolError for a malformed line.
        """
        for number, line in enumerate(lines, 1):
            yield self._line(line.removesuffix("\n"), number)

    def _line(self, line: str, number: int) -> TypedRecord:
        rest, headers, key = line, None, None
        if self._parse_headers:
            headers, rest = self._split(
                rest,
                self._headers_delimiter,
                f"headers delimiter found on line number {number}",
                line,
            )
        if self._parse_key:
            key, rest = self._split(
                rest, self._key_separator, f"key separator found on line number {number}", line
            )
        return TypedRecord(
            self._bytes(key),
            self._bytes(rest),
            []
            if headers is None or headers == self._null_marker
            else self._headers(headers, number),
        )

    def _split(self, rest: str, separator: str, what: str, line: str) -> tuple[str | None, str]:
        """Return the part before the first separator (None without a separator), and the rest."""
        first, middle, after = rest.partition(separator) if separator else ("", "", rest)
        if separator and not middle:
            if self._ignore_error:
                return None, rest
            raise _error(f"No {what}: '{line}'")
        return first, after

    def _bytes(self, text: str | None) -> bytes | None:
        return None if text is None or text == self._null_marker else text.encode()

    def _headers(self, text: str, number: int) -> Headers:
        headers: Headers = []
        pairs = self._headers_pattern.split(text)
        while len(pairs) > 1 and not pairs[-1]:  # Java's Pattern.split drops empty parts at the end
            pairs.pop()
        for pair in pairs:
            name, separator, value = pair.partition(self._headers_key_separator)
            if not separator:
                if not self._ignore_error:
                    raise _error(
                        f"No header key separator found in pair '{pair}' on line number {number}"
                    )
                headers.append((pair, None))
                continue
            if name == self._null_marker:
                raise _error(
                    f"Header keys should not be equal to the null marker '{name}' as they can't be"
                    " null"
                )
            headers.append((name, self._bytes(value)))
        return headers


def _is_true(properties: Mapping[str, str], name: str) -> bool:
    return properties.get(name, "").strip().lower() == "true"


def _error(message: str) -> ToolError:
    return ToolError(_KAFKA_EXCEPTION, message)
