"""JAAS text in a setting or in a file: login modules with their options.

The syntax of a setting is that of Kafka's JaasConfig, which uses Java's StreamTokenizer: `MODULE
FLAG NAME=VALUE ... ;`. A word consists of letters, digits and . - _ $; other text must be in single
or double quotes, with backslash escapes. // and /* */ start comments, and a single / comments out
the rest of the line. A number is not a word: NAME=5 must be written NAME="5".

A file has sections: `NAME { MODULE FLAG NAME=VALUE ... ; ... };`. The syntax is that of Java's
ConfigFile: only double quotes are quotes, * is part of a word, and ${NAME} in a value is a system
property.

An error names the position and never the text, which contains passwords.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

_FLAGS = ("REQUIRED", "REQUISITE", "SUFFICIENT", "OPTIONAL")
_QUOTES = "\"'"
_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_OCTAL = "01234567"
_DIGITS = "0123456789"
_END = ""
_END_OF_LINE = re.compile(r"[\n\r]")
_LINE_BREAK = re.compile(r"\r\n|\n|\r")
_PROPERTY = re.compile(r"\$\{\{(?:.*?\}\}|.*)|\$\{(?P<name>[^}]*)\}", re.DOTALL)


class JaasError(ValueError):
    """The text is not a valid JAAS configuration."""


class LoginModule(NamedTuple):
    """A login module with its options, which contain passwords."""

    name: str
    options: dict[str, str]

    def __repr__(self) -> str:
        return f"LoginModule({self.name})"


class _Token(NamedTuple):
    """A token; `kind` is the character itself, or "word", "number", or "" at the end."""

    kind: str
    text: str | None
    position: int


def parse_jaas(text: str) -> list[LoginModule]:
    """Parse a setting and return its login modules, at least one. Raises JaasError."""
    tokens = _Tokenizer(text)
    modules = []
    while (token := tokens.next()).kind:
        modules.append(_parse_module(token, tokens))
    if not modules:
        raise JaasError("Login module not specified in JAAS config")
    return modules


def parse_login_module(text: str) -> LoginModule:
    """Parse a setting with exactly one login module (Kafka's JaasContext). Raises JaasError."""
    modules = parse_jaas(text)
    if len(modules) != 1:
        raise JaasError(
            f"JAAS config property contains {len(modules)} login modules, should be 1 module"
        )
    return modules[0]


def parse_jaas_file(text: str, properties: Mapping[str, str]) -> dict[str, list[LoginModule]]:
    """Parse a JAAS file; return login modules by section. Raises JaasError with the line.

    `properties` are the system properties that replace ${NAME} in option values.
    """
    tokens = _Tokenizer(text, is_file=True)
    sections: dict[str, list[LoginModule]] = {}
    while (name := tokens.next()).kind:
        if name.text is None:
            raise JaasError(f"{tokens.at(name)}: the name of a section is expected")
        if name.text in sections:
            raise JaasError(f"{tokens.at(name)}: there is another section of this name")
        _expect("{", "after the name of a section", tokens)
        modules = sections[name.text] = []
        while (token := tokens.next()).kind != "}":
            module = _parse_module(token, tokens)
            try:
                options = {key: _expand(value, properties) for key, value in module.options.items()}
            except JaasError as error:
                raise JaasError(f"{tokens.at(token)}: {error}") from None
            modules.append(LoginModule(module.name, options))
        _expect(";", "after the } of a section", tokens)
    return sections


def render_login_module(module: LoginModule) -> str:
    """Return a login module in the syntax of a setting."""
    options = "".join(f" {_quote(name)}={_quote(text)}" for name, text in module.options.items())
    return f"{module.name} required{options};"


def _quote(text: str) -> str:
    for character, escape in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r")):
        text = text.replace(character, escape)
    return f'"{text}"'


def _expect(character: str, place: str, tokens: _Tokenizer) -> None:
    token = tokens.next()
    if token.kind != character:
        raise JaasError(f"{tokens.at(token)}: {character} is expected {place}")


def _expand(text: str, properties: Mapping[str, str]) -> str:
    """Replace ${NAME} by system properties, like Java's PropertyExpander. Raises JaasError."""

    def value(match: re.Match[str]) -> str:
        name = match["name"]
        if name is None:  # ${{ }} is left unchanged
            return match[0]
        if name == "/":
            return "/"
        if name not in properties:
            raise JaasError("an option names a system property that is not set")
        return properties[name]

    expanded = _PROPERTY.sub(value, text)
    if text and not expanded:
        raise JaasError("a system property that an option names is empty")
    return expanded


def _parse_module(first: _Token, tokens: _Tokenizer) -> LoginModule:
    if first.text is None:
        expected = "the name of a login module is expected in JAAS config"
        raise JaasError(f"{tokens.at(first)}: {expected}")
    flag = tokens.next()
    if flag.text is None:
        missing = "Login module control flag not specified in JAAS config"
        raise JaasError(f"{tokens.at(flag)}: {missing}")
    if flag.text.upper() not in _FLAGS:
        raise JaasError(f"{tokens.at(flag)}: Invalid login module control flag in JAAS config")
    options: dict[str, str] = {}
    while (key := tokens.next()).kind not in (_END, ";"):
        sign = tokens.next()
        value = tokens.next() if sign.kind == "=" else sign
        if sign.kind != "=" or key.text is None or value.text is None:
            # The name may be part of a password with a missing quote, so do not print it.
            raise JaasError(f"{tokens.at(key)}: Value not specified for a key in JAAS config")
        options[key.text] = value.text
    if key.kind != ";":
        raise JaasError(f"{tokens.at(key)}: JAAS config entry not terminated by semi-colon")
    return LoginModule(first.text, options)


class _Tokenizer:
    """Java's StreamTokenizer as configured by JaasConfig, or by ConfigFile for a file."""

    def __init__(self, text: str, *, is_file: bool = False) -> None:
        self._text = text
        self._position = 0
        self._is_file = is_file

    def at(self, token: _Token) -> str:
        """Return the position of a token: the line in a file, the character in a setting."""
        if self._is_file:
            return f"line {len(_LINE_BREAK.findall(self._text, 0, token.position)) + 1}"
        return f"character {token.position + 1}"

    def next(self) -> _Token:
        """Return the next token."""
        text = self._text
        self._skip_blanks()
        start = self._position
        if start >= len(text):
            return _Token(_END, None, start)
        character = text[start]
        if character in _DIGITS + ".-" and self._skip_number():
            return _Token("number", None, start)
        more = _DIGITS + "." + "*" * self._is_file
        if (_is_word(character) and character != "-") or (self._is_file and character == "*"):
            end = start + 1
            while end < len(text) and (_is_word(text[end]) or text[end] in more):
                end += 1
            self._position = end
            return _Token("word", text[start:end], start)
        self._position += 1
        if character in _QUOTES:
            quoted = self._quoted(character)
            is_text = character == '"' or not self._is_file
            return _Token(character, quoted if is_text else None, start)
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
                # As in Java's StreamTokenizer, a comment may also begin with a single slash.
                end_of_line = _END_OF_LINE.search(text, self._position + 2)
                self._position = len(text) if end_of_line is None else end_of_line.start()
            else:
                return

    def _skip_number(self) -> bool:
        """Skip a number at the position and return True; a lone minus is not a number."""
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
        """Return the text in quotes, which also ends at the end of the line."""
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
