"""JSON files of Kafka's tools: values, errors and positions as in Java's Jackson.

Python's parser reads a document. If it rejects the document, a second scan finds the error that
Jackson's ReaderBasedJsonParser reports. As in Jackson, text after the first value is ignored.
"""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

from coordinator_server.kafka_tools.frame import ToolError
from coordinator_server.kafka_tools.java import double_text

_PACKAGE = "com.fasterxml.jackson"
_PARSE = f"{_PACKAGE}.core.JsonParseException"
_END = f"{_PACKAGE}.core.io.JsonEOFException"
_LIMIT = f"{_PACKAGE}.core.exc.StreamConstraintsException"
_MAPPING = f"{_PACKAGE}.databind.JsonMappingException"
_TOKENS = "(JSON String, Number, Array, Object or token 'null', 'true' or 'false')"
_VALID_VALUE = f"expected a valid value {_TOKENS}"
_NO_DIGIT = "expected digit (0-9) to follow minus sign, for valid numeric value"
_NO_PLUS = (
    "JSON spec does not allow numbers to have plus signs: enable "
    "`JsonReadFeature.ALLOW_LEADING_PLUS_SIGN_FOR_NUMBERS` to allow"
)
_SOURCE = "[Source: REDACTED (`StreamReadFeature.INCLUDE_SOURCE_IN_LOCATION` disabled); "
_MOST_DEPTH, _LONGEST_NUMBER, _LONGEST_NAME, _LONGEST_TOKEN = 1000, 1000, 50_000, 256
_SPACE = re.compile(r"[ \t\r\n]*")
_NUMBER = re.compile(r"(-?)([0-9]*)(?:(\.)([0-9]*))?(?:([eE])([+-]?)([0-9]*))?")
_SPECIAL = re.compile(r"NaN|Infinity|[+-]INF|[+-]Infinity")
_LINE_END = re.compile(r"\r\n?|\n")
_OUTSIDE_LIMITS = re.compile(
    rf"[-+.\deE]{{{_LONGEST_NUMBER + 1}}}|[^\"]{{{_LONGEST_NAME + 1}}}", re.ASCII
)

MISSING = object()
"""Returned for a text without a value."""


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(name)


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


def read_file(path: str) -> str:
    """Return the text of a file. Raises ToolError like Kafka's Utils.readFileAsString."""
    try:
        with open(path, encoding="utf-8", errors="replace", newline="") as stream:
            return stream.read()
    except FileNotFoundError:
        cause = ToolError("java.nio.file.NoSuchFileException", path)
    except OSError as error:
        cause = ToolError("java.io.IOException", error.strerror or str(error))
    raise ToolError("java.io.IOException", f"Unable to read file {path}") from cause


def parse(text: str) -> Any:
    """Return the first value of a text, or MISSING if the text has none.

    Raises ToolError with the class and message of Jackson's exception.
    """
    if not text:
        location = "[Source: UNKNOWN; byte offset: #UNKNOWN]"
        raise ToolError(_PARSE, f"The input string shouldn't be empty\n at {location}")
    start = _SPACE.match(text)
    assert start is not None
    try:
        value, _ = _DECODER.raw_decode(text, start.end())
    except (ValueError, RecursionError) as error:
        _Scanner(text).scan()
        if start.end() < len(text):
            raise ToolError(_PARSE, str(error)) from error
        return MISSING
    if not isinstance(value, dict | list) or _OUTSIDE_LIMITS.search(text) or _is_too_deep(value):
        _Scanner(text).scan()
    return value


def _is_too_deep(value: Any) -> bool:
    level = [value]
    for _ in range(_MOST_DEPTH + 1):
        level = [
            child
            for parent in level
            if isinstance(parent, dict | list)
            for child in (parent.values() if isinstance(parent, dict) else parent)
        ]
        if not level:
            return False
    return True


class _Scanner:
    """Finds the first error of a document. Indexes count UTF-16 units, as in Java."""

    def __init__(self, text: str) -> None:
        data = text.encode("utf-16-le", "surrogatepass")
        units = zip(data[::2], data[1::2], strict=True)
        self._text = "".join(chr(low | high << 8) for low, high in units)
        self._at = 0
        self._open: list[tuple[str, int]] = []
        """The open containers (Array or Object), each with the index of its start."""

    def scan(self) -> None:
        """Raise ToolError for the first error in the text's first value, if any."""
        after = "start"
        while after != "end":
            char = self._skip_space()
            kind = self._open[-1][0] if self._open else ""
            if not char:
                self._end_of_input(after, kind)
                return
            if char in "]}" and after in ("start", "open", "value"):
                self._close(char)
                after = "value"
            elif after == "value":
                if char != ",":
                    self._unexpected(f"was expecting comma to separate {kind} entries")
                self._at += 1
                after = "comma"
            elif kind == "Object" and after in ("open", "comma"):
                self._name(char)
                after = "colon"
            elif char in "{[":
                self._open.append(("Object" if char == "{" else "Array", self._at))
                self._at += 1
                if len(self._open) > _MOST_DEPTH:
                    self._limit("Document nesting depth", len(self._open), "NestingDepth")
                after = "open"
            else:
                self._scalar(char)
                after = "value"
            if after == "value" and not self._open:
                after = "end"

    def _skip_space(self) -> str:
        """Skip white space; return the next character, or an empty string at the end."""
        space = _SPACE.match(self._text, self._at)
        assert space is not None
        self._at = space.end()
        char = self._text[self._at : self._at + 1]
        if char and char < " ":
            text = "only regular white space (\\r, \\n, \\t) is allowed between tokens"
            self._fail(f"Illegal character ({_shown(char)}): {text}", self._at + 1)
        if char == "/":
            self._unexpected(
                "maybe a (non-standard) comment? (not recognized as one since Feature "
                "'ALLOW_COMMENTS' not enabled for parser)"
            )
        return char

    def _end_of_input(self, after: str, kind: str) -> None:
        if not self._open:
            return
        if after in ("open", "value"):
            marker = f"(start marker at {self._location(self._open[-1][1])})"
            self._end(f": expected close marker for {kind} {marker}")
        java_class = _END if after == "colon" else _PARSE
        self._end(f" within/between {kind} entries", java_class)

    def _close(self, char: str) -> None:
        closed = "Object" if char == "}" else "Array"
        if not self._open:
            self._fail(f"Unexpected close marker '{char}': no open {closed} to close")
        kind, start = self._open.pop()
        if kind != closed:
            expected = "}" if kind == "Object" else "]"
            where = f"(for {kind} starting at {self._location(start)})"
            self._fail(f"Unexpected close marker '{char}': expected '{expected}' {where}")
        self._at += 1

    def _name(self, char: str) -> None:
        if char != '"':
            self._unexpected("was expecting double-quote to start field name")
        start = self._at
        self._string("name", " in field name")
        length = self._at - start - 2
        if length > _LONGEST_NAME:
            self._limit("Name length", length, "NameLength")
        char = self._skip_space()
        if not char:
            self._end(" within/between Object entries")
        if char != ":":
            self._unexpected("was expecting a colon to separate field name and value")
        self._at += 1

    def _string(self, what: str, end: str) -> None:
        self._at += 1
        while (char := self._text[self._at : self._at + 1]) != '"':
            if not char:
                self._end(end)
            if char < " ":
                text = f"has to be escaped using backslash to be included in {what}"
                self._fail(f"Illegal unquoted character ({_shown(char)}): {text}")
            self._at += 1
            if char == "\\":
                self._escape()
        self._at += 1

    def _escape(self) -> None:
        char = self._text[self._at : self._at + 1]
        if char and char not in '"\\/bfnrtu':
            self._fail(f"Unrecognized character escape {_shown(char)}")
        for _ in range(4 if char == "u" else 0):
            self._at += 1
            digit = self._text[self._at : self._at + 1]
            if digit and digit not in "0123456789abcdefABCDEF":
                self._unexpected("expected a hex-digit for character escape sequence")
        if self._at >= len(self._text):
            self._at = len(self._text)
            self._end(" in character escape sequence")
        self._at += 1

    def _scalar(self, char: str) -> None:
        if char == '"':
            self._string("string value", ": was expecting closing quote for a string value")
        elif char == "-" or char in "0123456789":
            self._number()
        elif char == "}" and self._open[-1][0] == "Array":
            self._unexpected("expected a value")
        else:
            self._word(char)

    def _word(self, char: str) -> None:
        for word in ("true", "false", "null"):
            end = self._at + len(word)
            if self._text.startswith(word, self._at) and not _is_part(self._text[end : end + 1]):
                self._at = end
                return
        self._refuse_special()
        if char == "+":
            self._at += 1
            if self._at == len(self._text):
                self._end(" in a Number value")
            self._unexpected(_NO_PLUS, " in numeric value", "+")
        if not (char.isalpha() or char in "_$"):
            self._unexpected(_VALID_VALUE)
        self._unrecognized()

    def _refuse_special(self) -> None:
        """Raise ToolError for a number that JSON does not allow, such as NaN."""
        special = _SPECIAL.match(self._text, self._at)
        if special and not _is_part(self._text[special.end() : special.end() + 1]):
            text = "enable `JsonReadFeature.ALLOW_NON_NUMERIC_NUMBERS` to allow"
            self._fail(f"Non-standard token '{special[0]}': {text}", special.end())

    def _unrecognized(self) -> NoReturn:
        end = self._at + 1
        while _is_part(self._text[end : end + 1]) and end - self._at < _LONGEST_TOKEN:
            end += 1
        more = "..." if end - self._at == _LONGEST_TOKEN else ""
        token = self._text[self._at : end]
        self._fail(f"Unrecognized token '{token}{more}': was expecting {_TOKENS}")

    def _number(self) -> None:
        match = _NUMBER.match(self._text, self._at)
        assert match is not None
        sign, digits, point, fraction, exponent, _, power = match.groups()
        whole_end = match.end(2)
        in_number = " in numeric value"
        if not digits:
            self._no_digits(whole_end)
        if digits[0] == "0" and len(digits) > 1:
            text = "Invalid numeric value: Leading zeroes not allowed"
            self._fail(text, self._at + len(sign) + 1)
        next_char = self._text[match.end() : match.end() + 1]
        if point and not fraction:
            behind = self._text[match.end(3) : match.end(3) + 1]
            text = "Decimal point not followed by a digit"
            self._at = whole_end if digits != "0" or not behind else match.end(3)
            self._unexpected(text, in_number, behind or point)
        if exponent and not power:
            self._at = whole_end if digits != "0" else match.end()
            if not next_char:
                self._end("expected a digit for number exponent")
            text = "Exponent indicator not followed by a digit"
            self._unexpected(text, in_number, next_char)
        length = len(digits) + len(fraction or "") + len(power or "")
        if length > _LONGEST_NUMBER:
            self._limit("Number value length", length, "NumberLength")
        self._at = match.end()
        if not self._open and next_char and next_char not in " \t\r\n":
            self._unexpected("Expected space separating root-level values")

    def _no_digits(self, end: int) -> NoReturn:
        char = self._text[end : end + 1]
        if not char:
            self._end("No digit following sign")
        self._refuse_special()
        if char == "I" and end + 1 == len(self._text):
            self._end(" in a Number value")
        if char == "I" and self._text[end + 1 : end + 2] in ("N", "n"):
            self._unrecognized()
        self._at = end + (char == "I")
        if char == ".":
            self._unexpected(_VALID_VALUE)
        self._unexpected(_NO_DIGIT, " in numeric value")

    def _location(self, index: int) -> str:
        line, start = 1, 0
        for end in _LINE_END.finditer(self._text, 0, index):
            line, start = line + 1, end.end()
        return f"{_SOURCE}line: {line}, column: {index - start + 1}]"

    def _unexpected(self, text: str, where: str = "", char: str | None = None) -> NoReturn:
        char = self._text[self._at : self._at + 1] if char is None else char
        self._fail(f"Unexpected character ({_shown(char)}){where}: {text}")

    def _end(self, text: str, java_class: str = _END) -> NoReturn:
        self._fail(f"Unexpected end-of-input{text}", len(self._text), java_class)

    def _fail(self, text: str, index: int | None = None, java_class: str = _PARSE) -> NoReturn:
        location = self._location(self._at if index is None else index)
        joined = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        message = f"{joined}\n at {location}".replace("\N{REPLACEMENT CHARACTER}", "?")
        raise ToolError(java_class, message)

    def _limit(self, what: str, value: int, name: str) -> NoReturn:
        most = _LONGEST_NAME if name == "NameLength" else _MOST_DEPTH
        text = f"{what} ({value}) exceeds the maximum allowed ({most}, from "
        raise ToolError(_LIMIT, f"{text}`StreamReadConstraints.getMax{name}()`)")


def _shown(char: str) -> str:
    """Return a character and its code in Jackson's format."""
    code = ord(char)
    if code < 0x20 or 0x7F <= code < 0xA0:
        return f"(CTRL-CHAR, code {code})"
    return f"'{char}' (code {code}{f' / 0x{code:x}' if code > 0xFF else ''})"


def _is_part(char: str) -> bool:
    """Return whether a character may be part of a Java identifier."""
    return char.isalnum() or char in ("_", "$") or "\x7f" <= char < "\xa0"


# --- types of values (Kafka: DecodeJson) ----------------------------------------------------------


def as_object(value: Any) -> dict[str, Any]:
    """Return the value if it is an object; otherwise raise ToolError."""
    if not isinstance(value, dict):
        _expected("JSON object", value)
    return value


def as_array(value: Any) -> list[Any]:
    """Return the value if it is an array; otherwise raise ToolError."""
    if not isinstance(value, list):
        _expected("JSON array", value)
    return value


def field(item: dict[str, Any], name: str) -> Any:
    """Return the value of a field. Raises ToolError if it does not exist."""
    if name not in item:
        raise ToolError(_MAPPING, f"No such field exists: `{name}`")
    return item[name]


def integer(value: Any, bits: int = 32) -> int:
    """Return the value if it is a number that fits Java's int or long; else raise ToolError."""
    limit = 1 << (bits - 1)
    if type(value) is not int or not -limit <= value < limit:
        _expected(f"`{'Integer' if bits == 32 else 'Long'}` value", value)
    return value


def string(value: Any) -> str:
    """Return the value if it is a string; otherwise raise ToolError."""
    if not isinstance(value, str):
        _expected("`String` value", value)
    return value


def integers(value: Any) -> list[int]:
    """Return the value if it is an array of ints; otherwise raise ToolError."""
    return [integer(item) for item in _items(value)]


def strings(value: Any) -> list[str]:
    """Return the value if it is an array of strings; otherwise raise ToolError."""
    return [string(item) for item in _items(value)]


def _items(value: Any) -> list[Any]:
    if not isinstance(value, list):
        _expected("`JSON array` value", value)
    return value


def _expected(what: str, value: Any) -> NoReturn:
    raise ToolError(_MAPPING, f"Expected {what}, received {to_text(value)}")


def to_text(value: Any) -> str:
    """Return a value as JSON text, like Jackson's JsonNode.toString."""
    if value is MISSING:
        return ""
    if isinstance(value, dict):
        pairs = (f"{_quoted(key)}:{to_text(element)}" for key, element in value.items())
        return f"{{{','.join(pairs)}}}"
    if isinstance(value, list):
        return f"[{','.join(map(to_text, value))}]"
    if isinstance(value, float):
        if abs(value) == float("inf"):
            return '"Infinity"' if value > 0 else '"-Infinity"'
        return double_text(value)
    return _quoted(value) if isinstance(value, str) else json.dumps(value)


def _quoted(text: str) -> str:
    escaped = json.dumps(text, ensure_ascii=False)
    return re.sub(r"\\u[0-9a-f]{4}", lambda code: "\\u" + code[0][2:].upper(), escaped)
