"""Reads Java properties files, so that a server.properties written for Kafka works unchanged.

The rules are those of java.util.Properties.load: comments, the three separators, continuation lines
and escapes. Files are Latin-1, as Java reads them from a stream; a UTF-8 byte order mark, which
editors on Windows write, is skipped.
"""

_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_BLANK = " \t\f"
_BYTE_ORDER_MARK = "\xef\xbb\xbf"


def read_properties(path: str) -> dict[str, str]:
    """Return the names and values in a properties file. Raises ValueError with the reason."""
    try:
        with open(path, encoding="latin-1") as stream:
            text = stream.read().removeprefix(_BYTE_ORDER_MARK)
    except OSError as error:
        raise ValueError(error.strerror or str(error)) from error
    if "\0" in text:
        raise ValueError("the file is no text: it has a zero byte")
    return parse_properties(text)


def parse_properties(text: str) -> dict[str, str]:
    """Return the names and values in a properties text; of duplicates the last value is used.

    Raises ValueError on a `\\u` escape that is not four hexadecimal digits, as Java does.
    """
    properties: dict[str, str] = {}
    for line in _logical_lines(text):
        name, value = _split(line)
        properties[_unescape(name)] = _unescape(value)
    return properties


def _logical_lines(text: str) -> list[str]:
    """Return the lines with continuations joined and leading blanks removed.

    Comments and blank lines are left out.
    """
    lines: list[str] = []
    natural = iter(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"))
    for line in natural:
        line = line.lstrip(_BLANK)
        if not line or line[0] in "#!":
            continue
        while _is_continued(line):
            line = line[:-1] + next(natural, "").lstrip(_BLANK)
        lines.append(line)
    return lines


def _is_continued(line: str) -> bool:
    """Return whether the line ends in an odd number of backslashes."""
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _split(line: str) -> tuple[str, str]:
    """Split a line at the first unescaped separator: blanks, or `=` or `:` with optional blanks."""
    position = 0
    while position < len(line) and line[position] not in _BLANK + "=:":
        position += 2 if line[position] == "\\" else 1
    name, rest = line[:position], line[position:].lstrip(_BLANK)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_BLANK)
    return name, rest


def _unescape(text: str) -> str:
    """Resolve escapes; a backslash before any other character is dropped. Raises ValueError."""
    if "\\" not in text:
        return text
    out: list[str] = []
    position = 0
    while position < len(text):
        character = text[position]
        position += 1
        if character == "\\" and position < len(text):
            character = text[position]
            position += 1
            if character == "u":
                digits = text[position : position + 4]
                if len(digits) != 4:
                    raise ValueError(f"malformed \\u escape: {digits!r}")
                character = chr(int(digits, 16))
                position += 4
            else:
                character = _ESCAPES.get(character, character)
        elif character == "\\":
            continue
        out.append(character)
    return "".join(out)
