"""JAAS text in a setting: login modules with their options.

As Kafka's JaasConfig reads it by Java's StreamTokenizer: `MODULE FLAG NAME=VALUE ... ;`. Words are
of letters, digits and . - _ $; anything else stands in quotes of either kind, where a backslash
escapes. // and /* */ are comments, and so is / to the end of the line. A number is no word there:
NAME=5 has to be NAME="5".

An error names the position and never the text, which has passwords.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_FLAGS = ("REQUIRED", "REQUISITE", "SUFFICIENT", "OPTIONAL")
_QUOTES = "\"'"
_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_OCTAL = "01234567"
_DIGITS = "0123456789"
_END = ""
_END_OF_LINE = re.compile(r"[\n\r]")


class JaasError(ValueError):
    """Text that is no JAAS configuration."""


class LoginModule(NamedTuple):
    """One entry; its options hold passwords."""

    name: str
    options: dict[str, str]

    def __repr__(self) -> str:
        return f"LoginModule({self.name})"


class _Token(NamedTuple):
    """`kind` is the character itself, or "word", "number", or "" at the end."""

    kind: str
    text: str | None
    position: int


def parse_jaas(text: str) -> list[LoginModule]:
    """The login modules of a text, at least one. Raises JaasError."""
    tokens = _Tokenizer(text)
    modules = []
    while (token := tokens.next()).kind:
        modules.append(_parse_module(token, tokens))
    if not modules:
        raise JaasError("Login module not specified in JAAS config")
    return modules


def parse_login_module(text: str) -> LoginModule:
    """The only login module of a setting (Kafka's JaasContext). Raises JaasError."""
    modules = parse_jaas(text)
    if len(modules) != 1:
        raise JaasError(
            f"JAAS config property contains {len(modules)} login modules, should be 1 module"
        )
    return modules[0]


def _parse_module(first: _Token, tokens: _Tokenizer) -> LoginModule:
    if first.text is None:
        raise JaasError(f"{_at(first)}: the name of a login module is expected in JAAS config")
    flag = tokens.next()
    if flag.text is None:
        raise JaasError(f"{_at(flag)}: Login module control flag not specified in JAAS config")
    if flag.text.upper() not in _FLAGS:
        raise JaasError(f"{_at(flag)}: Invalid login module control flag in JAAS config")
    options: dict[str, str] = {}
    while (key := tokens.next()).kind not in (_END, ";"):
        sign = tokens.next()
        value = tokens.next() if sign.kind == "=" else sign
        if sign.kind != "=" or key.text is None or value.text is None:
            # The name may be a piece of a password that a quote is missing of.
            raise JaasError(f"{_at(key)}: Value not specified for a key in JAAS config")
        options[key.text] = value.text
    if key.kind != ";":
        raise JaasError("JAAS config entry not terminated by semi-colon")
    return LoginModule(first.text, options)


def _at(token: _Token) -> str:
    return f"character {token.position + 1}"


class _Tokenizer:
    """Java's StreamTokenizer, as JaasConfig sets it up."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0

    def next(self) -> _Token:
        """The next token."""
        text = self._text
        self._skip_blanks()
        start = self._position
        if start >= len(text):
            return _Token(_END, None, start)
        character = text[start]
        if character in _DIGITS + ".-" and self._skip_number():
            return _Token("number", None, start)
        if _is_word(character) and character != "-":
            end = start + 1
            while end < len(text) and (_is_word(text[end]) or text[end] in _DIGITS + "."):
                end += 1
            self._position = end
            return _Token("word", text[start:end], start)
        self._position += 1
        if character in _QUOTES:
            return _Token(character, self._quoted(character), start)
        return _Token(character, None, start)

    def _skip_blanks(self) -> None:
        text = self._text
        while self._position < len(text):
            if text[self._position] <= " ":
                self._position += 1
            elif text.startswith("/*", self._position):
                end = text.find("*/", self._position + 2)
                self._position = len(text) if end < 0 else end + 2
            elif text[self._position] == "/":
                # A single slash is one too; StreamTokenizer then skips what follows unseen.
                end_of_line = _END_OF_LINE.search(text, self._position + 2)
                self._position = len(text) if end_of_line is None else end_of_line.start()
            else:
                return

    def _skip_number(self) -> bool:
        """Go behind a number, if one is here; a lone minus is none."""
        text, start = self._text, self._position
        end = start + 1 if text[start] == "-" else start
        if text[start] == "-" and not (end < len(text) and text[end] in _DIGITS + "."):
            return False
        has_point = False
        while end < len(text) and (text[end] in _DIGITS or (text[end] == "." and not has_point)):
            has_point = has_point or text[end] == "."
            end += 1
        self._position = end
        return True

    def _quoted(self, quote: str) -> str:
        """What is in quotes; the end of the line ends it as well."""
        text, out = self._text, []
        while self._position < len(text) and text[self._position] not in (quote, "\n", "\r"):
            character = text[self._position]
            self._position += 1
            if character == "\\" and self._position < len(text):
                character = self._escaped()
            out.append(character)
        if self._position < len(text) and text[self._position] == quote:
            self._position += 1
        return "".join(out)

    def _escaped(self) -> str:
        text, start = self._text, self._position
        character = text[start]
        if character in _OCTAL:
            most = 3 if character <= "3" else 2
            end = start + 1
            while end < min(start + most, len(text)) and text[end] in _OCTAL:
                end += 1
            self._position = end
            return chr(int(text[start:end], 8))
        self._position += 1
        return _ESCAPES.get(character, character)


def _is_word(character: str) -> bool:
    return (
        "a" <= character <= "z"
        or "A" <= character <= "Z"
        or character in "_$-"
        or character >= "\xa0"
    )
