"""Parses options like joptsimple, which all of Kafka's tools use.

`--name value`, `--name=value` and `-name value` are equivalent. A value may begin with a hyphen. An
option may be repeated. Arguments that are not options are collected; most tools ignore them.
Abbreviations are rejected, as in Kafka's tools.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

_WIDTH = 80
_INTEGERS = {"int": ("Integer", 31), "long": ("Long", 63)}


class Option(NamedTuple):
    """An option of a tool.

    `argument` is the placeholder in the usage; an option without `argument` is a flag. `kind` is
    str, int or long, as in Java. `instead` is set for an option of Kafka's tool that is not
    implemented here, and names an alternative.
    """

    name: str
    help: str
    argument: str = ""
    kind: str = "str"
    default: str | None = None
    instead: str = ""
    is_argument_optional: bool = False


HELP = Option("help", "Print this help.")
VERSION = Option("version", "Print the Kafka release that this tool implements.")


class OptionsError(Exception):
    """An error of joptsimple: its class (in package joptsimple) and its message."""

    def __init__(self, java_class: str, message: str) -> None:
        super().__init__(message)
        self.java_class = f"joptsimple.{java_class}"


class UsageError(Exception):
    """Wrong arguments: prints the message and the usage on standard error; exit code 1."""


class Options:
    """The parsed options of one invocation."""

    def __init__(
        self,
        declared: Sequence[Option],
        arguments: Sequence[str],
        given: dict[str, list[str]],
        order: list[str],
        others: list[str],
    ) -> None:
        self.arguments = list(arguments)
        """All arguments, unchanged."""
        self._declared = {option.name: option for option in declared}
        self._given = given
        self.order = order
        """The names of the given options in order, including repetitions."""
        self.others = others
        """The arguments that are not options, in order."""

    def has(self, name: str) -> bool:
        """Return whether the option is on the command line."""
        assert name in self._declared, name
        return name in self._given

    def values(self, name: str) -> list[str]:
        """Return all values of an option in order, or its default if the option is not given."""
        option = self._declared[name]
        if name in self._given:
            return self._given[name]
        return [] if option.default is None else [option.default]

    def value(self, name: str) -> str | None:
        """Return the value of an option, its default, or None.

        Raises OptionsError if the option is given more than once, as joptsimple does on access.
        """
        values = self.values(name)
        if len(values) > 1:
            raise OptionsError(
                "MultipleArgumentsForOptionException",
                f"Found multiple arguments for option {name}, but you asked for only one",
            )
        return values[0] if values else None

    def integer(self, name: str) -> int | None:
        """Return the value of an option of kind int or long, or None.

        Raises OptionsError if the value is not a number.
        """
        text = self.value(name)
        return None if text is None else convert(self._declared[name], text)

    def integers(self, name: str) -> list[int]:
        """Return all values of an option of kind int or long. Raises OptionsError."""
        return [convert(self._declared[name], text) for text in self.values(name)]

    def required(self, *names: str) -> None:
        """Raise UsageError for the first of these options that is not given."""
        for name in names:
            if not self.has(name):
                raise UsageError(f'Missing required argument "[{name}]"')

    def excludes(self, used: str, *invalid: str) -> None:
        """Raise UsageError if `used` is given together with one of the `invalid` options."""
        for name in invalid if self.has(used) else ():
            if self.has(name):
                raise UsageError(f'Option "[{used}]" can\'t be used with option "[{name}]"')


def convert(option: Option, text: str) -> int:
    """Parse a number like Java's Integer.valueOf or Long.valueOf. Raises OptionsError."""
    _, bits = _INTEGERS[option.kind]
    if not re.fullmatch(r"[+-]?[0-9]+", text) or not -(1 << bits) <= int(text) < 1 << bits:
        raise OptionsError(
            "OptionArgumentConversionException",
            f"Cannot parse argument '{text}' of option {option.name}",
        )
    return int(text)


def parse_options(declared: Sequence[Option], arguments: Sequence[str]) -> Options:
    """Parse the arguments of a tool. Raises OptionsError."""
    by_name = {option.name: option for option in declared}
    given: dict[str, list[str]] = {}
    order: list[str] = []
    others: list[str] = []
    waiting = list(arguments)
    while waiting:
        token = waiting.pop(0)
        if token == "--":
            others += waiting
            break
        if not token.startswith("-") or token == "-":
            others.append(token)
            continue
        name, separator, value = (
            token.lstrip("-").partition("=")
            if (token.startswith("--"))
            else token[1:].partition("=")
        )
        if name not in by_name:
            raise _unrecognized(name if token.startswith("--") else name[:1])
        order.append(name)
        values = given.setdefault(name, [])
        option = by_name[name]
        if not option.argument:
            continue
        if separator:
            values.append(value)
        elif waiting and _is_value(option, waiting[0], by_name):
            values.append(waiting.pop(0))
        elif not option.is_argument_optional:
            raise OptionsError(
                "OptionMissingRequiredArgumentException", f"Option {name} requires an argument"
            )
    return Options(declared, arguments, given, order, others)


def _unrecognized(name: str) -> OptionsError:
    return OptionsError("UnrecognizedOptionException", f"{name} is not a recognized option")


def _is_value(option: Option, token: str, by_name: dict[str, Option]) -> bool:
    """Return whether the next token is the option's argument.

    If the option is a number with an optional argument, only a number counts as the argument.
    """
    if _is_option(token, by_name):
        return False
    if option.is_argument_optional and option.kind in _INTEGERS:
        try:
            convert(option, token)
        except OptionsError:
            return False
    return True


def _is_option(token: str, by_name: dict[str, Option]) -> bool:
    """Return whether a token is a known option, and not a value that begins with a hyphen."""
    return token.startswith("-") and token.lstrip("-").partition("=")[0] in by_name


def usage(declared: Sequence[Option]) -> str:
    """Return the usage in joptsimple's format: two columns, options sorted by name."""
    import textwrap

    rows = [("Option", "Description"), ("------", "-----------")]
    for option in sorted(declared):
        left = f"--{option.name}"
        if option.argument:
            kind = _INTEGERS.get(option.kind, ("String", 0))[0]
            placeholder = f"{kind}: {option.argument}"
            left += f" [{placeholder}]" if option.is_argument_optional else f" <{placeholder}>"
        text = option.help
        if option.default is not None:
            text += f" (default: {option.default})"
        rows.append((left, text))
    width = (_WIDTH - 1) // 2
    lines = []
    for left, right in rows:
        lefts = textwrap.wrap(left, width, subsequent_indent="  ", break_on_hyphens=False)
        rights = textwrap.wrap(right, width, subsequent_indent="  ", break_on_hyphens=False)
        for index in range(max(len(lefts), len(rights))):
            part = lefts[index] if index < len(lefts) else ""
            lines.append(f"{part:<{width + 2}}{rights[index] if index < len(rights) else ''}")
    return "".join(f"{line.rstrip()}\n" for line in lines)
