"""Rules that make principals of the subjects of certificates: ssl.principal.mapping.rules.

Source: SslPrincipalMapper (KIP-371). A rule is RULE:PATTERN/REPLACEMENT/ with L or U at its end for
lower or upper case, or DEFAULT, which takes the subject as it is. The first rule whose pattern
matches the whole subject counts. The pattern is one of Java's regular expressions; Python's are the
same but for what `_python_pattern` changes and for what Python refuses, which is then said at the
start.
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
    """No rule applies to a subject; the message names both."""


class _Rule(NamedTuple):
    """One RULE; `pieces` are the texts of the replacement and the numbers of groups between."""

    pattern: re.Pattern[str]
    pieces: tuple[str | int, ...]
    case: str

    def apply(self, subject: str) -> str | None:
        """The name that the rule makes of a subject; None if it does not match."""
        if self.pattern.fullmatch(subject) is None:
            return None
        # Java's replaceAll: every match, also an empty one at the end of the one before.
        name = self.pattern.sub(self._fill_in, subject)
        return name.lower() if self.case == "L" else name.upper() if self.case == "U" else name

    def _fill_in(self, match: re.Match[str]) -> str:
        return "".join(
            piece if isinstance(piece, str) else match.group(piece) or "" for piece in self.pieces
        )


class PrincipalMapper:
    """All rules of a listener. Raises ValueError for rules that cannot be used."""

    def __init__(self, rules: str) -> None:
        self._text = rules
        texts = [match.group(1) for match in _SPLITTER.finditer(rules.strip())]
        self._rules = [_parse(text) for text in texts if text]

    def name(self, subject: str) -> str:
        """The name of the client whose certificate has this subject.

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
    """A rule; None for DEFAULT."""
    match = _PARSER.match(text)
    if match is None or match.end() != len(text):
        raise ValueError(f"{text!r} is neither DEFAULT nor RULE:PATTERN/REPLACEMENT/, L or U")
    if match.group(1) is not None:
        return None
    try:
        with warnings.catch_warnings():  # "[[" may mean something else one day
            warnings.simplefilter("ignore", FutureWarning)
            # Java's \d, \w and (?i) know ASCII only.
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
    """Java's pattern for Python: (?<name>...) is (?P<name>...)."""
    return _NAMED_GROUP.sub("(?P<", pattern)


def _with_literal_references(replacement: str, groups: int) -> str:
    """The replacement with references to groups that there are not made literal.

    As Kafka does it (Rule.escapeLiteralBackReferences): the position of each reference is that in
    the text of before, although each backslash moves what follows.
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
    """The parts of a replacement as Java's Matcher.appendReplacement reads it."""
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
    """The group that a `$` before `position` means, and where the text goes on."""
    named = re.compile(r"\{([a-zA-Z][a-zA-Z0-9]*)\}").match(replacement, position)
    if named is not None:
        if named.group(1) not in pattern.groupindex:
            raise ValueError(f"the pattern has no group {named.group(1)}")
        return pattern.groupindex[named.group(1)], named.end()
    digits = re.compile("[0-9]*").match(replacement, position)
    assert digits is not None  # it matches nothing, too
    if not digits.group():
        raise ValueError("a `$` of the replacement names no group")
    group, position = int(digits.group()[0]), position + 1
    if group > pattern.groups:
        raise ValueError(f"the pattern has no group {group}")
    for digit in digits.group()[1:]:  # as many digits as there are groups
        if group * 10 + int(digit) > pattern.groups:
            break
        group, position = group * 10 + int(digit), position + 1
    return group, position
