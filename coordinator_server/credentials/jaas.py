"""JAAS text in a setting or in a file: login modules with their options.

As Kafka's JaasConfig reads it by Java's StreamTokenizer: `MODULE FLAG NAME=VALUE ... ;`. Words are
of letters, digits and . - _ $; anything else stands in quotes of either kind, where a backslash
escapes. // and /* */ are comments, and so is / to the end of the line. A number is no word there:
NAME=5 has to be NAME="5".

A file has sections: `NAME { MODULE FLAG NAME=VALUE ... ; ... };`. It is read as Java's ConfigFile
reads it: only double quotes count, * is part of a word, ${NAME} in a value is a system property.

An error names the position and never the text, which has passwords.
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


def parse_jaas_file(text: str, properties: Mapping[str, str]) -> dict[str, list[LoginModule]]:
    """Return the login modules of a JAAS file by section. Raises JaasError with the line.

    `properties` are the system properties that ${NAME} in the value of an option stands for.
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
                options = {key: _expand(one, properties) for key, one in module.options.items()}
            except JaasError as error:
                raise JaasError(f"{tokens.at(token)}: {error}") from None
            modules.append(LoginModule(module.name, options))
        _expect(";", "after the } of a section", tokens)
    return sections


def render_login_module(module: LoginModule) -> str:
    """Return the module as the text of a setting."""
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
    """Replace ${NAME} by the system property, as Java's PropertyExpander does. Raises JaasError."""

    def value(match: re.Match[str]) -> str:
        name = match["name"]
        if name is None:  # ${{ }}, which is left for others
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
            # The name may be a piece of a password that a quote is missing of.
            raise JaasError(f"{tokens.at(key)}: Value not specified for a key in JAAS config")
        options[key.text] = value.text
    if key.kind != ";":
        raise JaasError(f"{tokens.at(key)}: JAAS config entry not terminated by semi-colon")
    return LoginModule(first.text, options)


class _Tokenizer:
    """Java's StreamTokenizer, as JaasConfig sets it up, or ConfigFile for a file."""

    def __init__(self, text: str, *, is_file: bool = False) -> None:
        self._text = text
        self._position = 0
        self._is_file = is_file

    def at(self, token: _Token) -> str:
        """Return where a token is: the line of a file, the character of a setting."""
        if self._is_file:
            return f"line {len(_LINE_BREAK.findall(self._text, 0, token.position)) + 1}"
        return f"character {token.position + 1}"

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
