"""Maps certificate subjects to principal names by ssl.principal.mapping.rules.

Source: SslPrincipalMapper (KIP-371). A rule is RULE:PATTERN/REPLACEMENT/ with an optional L or U
for lower or upper case, or DEFAULT, which uses the subject as is. The first rule whose pattern
matches the whole subject applies. Patterns are Java regular expressions; `_python_pattern` converts
them, and patterns that Python rejects cause an error at startup.
"""

from __future__ import annotations

import re
import warnings
from typing import NamedTuple

_RULE = r"(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?).*?|(.*?)"
_SPLITTER = re.compile(rf"\s*({_RULE})\s*(,\s*|$)")
_PARSER = re.compile(_RULE)
_BACK_REFERENCE = re.compile(r"\$([0-9]+)")
_NAMED_GROUP = re.compile(r"(?<!\\)\(\?<(?=[a-zA-Z])")


class NoMatchingRuleError(Exception):
    """No rule matches a subject; the message contains rules and subject."""


class _Rule(NamedTuple):
    """One RULE; `pieces` are literal texts and group numbers of the replacement."""

    pattern: re.Pattern[str]
    pieces: tuple[str | int, ...]
    case: str

    def apply(self, subject: str) -> str | None:
        """Return the name for a subject, or None if the pattern does not match."""
        if self.pattern.fullmatch(subject) is None:
            return None
        # Like Java's replaceAll, also replace an empty match that directly follows another match.
        name = self.pattern.sub(self._fill_in, subject)
        return name.lower() if self.case == "L" else name.upper() if self.case == "U" else name

    def _fill_in(self, match: re.Match[str]) -> str:
        return "".join(
            piece if isinstance(piece, str) else match.group(piece) or "" for piece in self.pieces
        )


class PrincipalMapper:
    """All rules of a listener. Raises ValueError for invalid rules."""

    def __init__(self, rules: str) -> None:
        self._text = rules
        texts = [match.group(1) for match in _SPLITTER.finditer(rules.strip())]
        self._rules = [_parse(text) for text in texts if text]

    def name(self, subject: str) -> str:
        """Return the name of the client with this certificate subject.

        Raises NoMatchingRuleError.
        """
        for rule in self._rules:
            name = subject if rule is None else rule.apply(subject)
            if name is not None:
                return name
        raise NoMatchingRuleError(
            f"no rule of ssl.principal.mapping.rules={self._text} applies to {subject}"
        )


def _parse(text: str) -> _Rule | None:
    """Parse a rule; return None for DEFAULT. Raises ValueError."""
    match = _PARSER.match(text)
    if match is None or match.end() != len(text):
        raise ValueError(f"{text!r} is neither DEFAULT nor RULE:PATTERN/REPLACEMENT/, L or U")
    if match.group(1) is not None:
        return None
    try:
        # Ignore the warning that "[[" may get another meaning in a future Python.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            # Java's \d, \w and (?i) match only ASCII.
            pattern = re.compile(_python_pattern(match.group(2)), re.ASCII)
    except re.error as error:
        raise ValueError(f"{text!r}: {error}") from None
    replacement = _with_literal_references(match.group(3), pattern.groups)
    try:
        pieces = tuple(_pieces(replacement, pattern))
    except ValueError as error:
        raise ValueError(f"{text!r}: {error}") from None
    return _Rule(pattern, pieces, match.group(4))


def _python_pattern(pattern: str) -> str:
    """Convert a Java pattern to Python: (?<name>...) becomes (?P<name>...)."""
    return _NAMED_GROUP.sub("(?P<", pattern)


def _with_literal_references(replacement: str, groups: int) -> str:
    """Return the replacement with references to missing groups made literal.

    As in Kafka (Rule.escapeLiteralBackReferences), positions are those in the original text,
    although each inserted backslash shifts the rest.
    """
    if not groups:
        return replacement
    text = replacement
    for match in _BACK_REFERENCE.finditer(replacement):
        if match.group(1).startswith("0"):
            continue
        group = int(match.group(1))
        while group > groups and group >= 10:
            group //= 10
        if group > groups:
            text = f"{text[: match.start()]}\\{text[match.start() :]}"
    return text


def _pieces(replacement: str, pattern: re.Pattern[str]) -> list[str | int]:
    """Return the parts of a replacement, parsed like Java's Matcher.appendReplacement."""
    pieces: list[str | int] = []
    position = 0
    while position < len(replacement):
        letter = replacement[position]
        position += 1
        if letter == "\\":
            if position == len(replacement):
                raise ValueError("nothing follows the last backslash of the replacement")
            pieces.append(replacement[position])
            position += 1
        elif letter == "$":
            group, position = _group(replacement, position, pattern)
            pieces.append(group)
        else:
            pieces.append(letter)
    return pieces


def _group(replacement: str, position: int, pattern: re.Pattern[str]) -> tuple[int, int]:
    """Return the group number of a `$` before `position`, and the position after the reference."""
    named = re.compile(r"\{([a-zA-Z][a-zA-Z0-9]*)\}").match(replacement, position)
    if named is not None:
        if named.group(1) not in pattern.groupindex:
            raise ValueError(f"the pattern has no group {named.group(1)}")
        return pattern.groupindex[named.group(1)], named.end()
    digits = re.compile("[0-9]*").match(replacement, position)
    # The match cannot fail, because the pattern also matches an empty text.
    assert digits is not None
    if not digits.group():
        raise ValueError("a `$` of the replacement names no group")
    group, position = int(digits.group()[0]), position + 1
    if group > pattern.groups:
        raise ValueError(f"the pattern has no group {group}")
    for digit in digits.group()[1:]:
        # As in Java, a further digit belongs to the group number only if the pattern has a group
        # with that number.
        if group * 10 + int(digit) > pattern.groups:
            break
        group, position = group * 10 + int(digit), position + 1
    return group, position
