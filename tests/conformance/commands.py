"""The request lines of data files: members, what they send, and what is recorded of the broker.

    A = Member v=3                          a new member A
    A join note="with id"                   a method of a member
    A join &                                send the request, but do not wait for its answer
    parked A.join                           a method of the stage; the pending request A.join
    A set protos=[(range, b"m")]            change an attribute
    look_at group                           a function of a module that the file uses
    setup A leave v=3                       unrecorded

Values are those of `flow`. <t1>, <g> and other symbols of transcripts stand for their values, `@A`
for the member id of A, `#<t1>` for the id of a topic, `new_connection` and `A.h` for connections.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any

from tests.conformance.connection import Pending
from tests.conformance.flow import Milliseconds, Reader, Word
from tests.conformance.members import Member
from tests.conformance.shares import topic_id
from tests.conformance.stage import Stage

_PREFIXES = ("setup", "silently")
_NOW = "_now"
_CONNECTIONS_OF_STAGE = ("ctl", "new_connection")
_CONNECTIONS = ("c", "h")
_KEYWORD = re.compile(r"[a-z][\w.]*=")
_TOKEN = re.compile(r"[^\s=]+")
_SYMBOL = re.compile(r"<[^<>]*>")


class Vocabulary:
    """The functions and classes of members that a file uses, by name."""

    def __init__(self, modules: list[str]) -> None:
        self.functions: dict[str, Callable[..., Any]] = {}
        self.classes: dict[str, type[Any]] = {"Member": Member}
        for name in modules:
            self._add(import_module(f"tests.conformance.{name}"))

    def _add(self, module: ModuleType) -> None:
        area = getattr(module, "AREA", None)
        for name, value in vars(module).items():
            if name.startswith("_") or next(iter(_parameters(value)), None) != "t":
                continue
            if inspect.isclass(value):
                self.classes[name] = value
            elif value.__module__ == module.__name__ and value not in getattr(
                area, "functions", ()
            ):
                self.functions.setdefault(name, value)
                self.functions[f"{module.__name__.rpartition('.')[2]}.{name}"] = value


def _parameters(value: Any) -> Mapping[str, inspect.Parameter]:
    """Return the parameters of a function or class in `tests`; {} for any other value."""
    is_ours = str(getattr(value, "__module__", "")).startswith("tests.")
    is_class = inspect.isclass(value) and not issubclass(value, BaseException)
    is_callable = inspect.isfunction(value) or is_class
    return inspect.signature(value).parameters if is_ours and is_callable else {}


class Scope:
    """The members and pending requests of a scenario that is played."""

    def __init__(self, t: Stage, vocabulary: Vocabulary) -> None:
        self.t = t
        self.actors: dict[str, Any] = {}
        self.pendings: dict[str, Pending] = {}
        self._vocabulary = vocabulary

    def run(self, line: str) -> None:
        """Execute a request line."""
        words, arguments, options = self._parsed(line)
        call: Callable[..., Any] | None = None
        prefix = words.pop(0) if words[0] in _PREFIXES else None
        target, *rest = words
        if rest and rest[0] == "=":
            member = self._vocabulary.classes[rest[1]]
            position = list(_parameters(member)).index("name") - 1
            if position <= len(arguments):
                arguments.insert(position, target)
            else:
                options["name"] = target
            self.actors[target] = member(self.t, *arguments, **options)
            return
        method = ""
        if target in self.actors:
            method = rest[0]
            if method == "set":
                for name, value in options.items():
                    if not hasattr(self.actors[target], name):
                        raise ValueError(f"{line}: {target} has no attribute {name}")
                    setattr(self.actors[target], name, value)
                return
            actor = self.actors[target]
            is_sent_only = rest[-1] == "&"
            call = getattr(actor, method + _NOW, None) if not is_sent_only else None
            call = call or getattr(actor, method)
        elif target in self._vocabulary.functions:
            function = self._vocabulary.functions[target]
            arguments = [self.t, *arguments]
            call = function
        else:
            call = getattr(self.t, target.removeprefix("stage."))
        if prefix is not None:
            arguments = [call, *arguments]
            call = getattr(self.t, prefix)
        self.register(call(*arguments, **options), target, method)

    def register(self, result: Any, target: str, method: str) -> None:
        """Name the members and pending requests that a command has returned."""
        if isinstance(result, list | tuple):
            for one in result:
                self.register(one, target, method)
        elif isinstance(result, Pending):
            name = result.member.name if result.member is not None else target
            self.pendings[f"{name}.{'join' if result.api == 'JoinGroup' else method}"] = result
        elif type(result) in self._vocabulary.classes.values():
            self.actors[result.name] = result
        newcomer = self.t.newcomer
        if newcomer is not None and self.actors.get(newcomer.name) is not newcomer:
            self.actors[newcomer.name] = newcomer
            self.register(self.t.waiting, newcomer.name, "join")

    def _parsed(self, line: str) -> tuple[list[str], list[Any], dict[str, Any]]:
        """Return the words at the start of a line, and the line's values and options."""
        reader = Reader(line)
        words = [reader.match(_TOKEN) or ""]
        if words[0] in _PREFIXES:
            words.append(reader.match(_TOKEN) or "")
        if reader.skip("="):
            words += ["=", reader.match(_TOKEN) or ""]
        elif words[-1] in self.actors:
            words.append(reader.match(_TOKEN) or "")
        arguments: list[Any] = []
        options: dict[str, Any] = {}
        while not reader.at_end():
            if reader.skip("&"):
                words.append("&")
                continue
            keyword = reader.match(_KEYWORD)
            value = self._resolved(reader.value())
            if keyword is None:
                arguments.append(value)
            else:
                options[keyword[:-1]] = value
        return words, arguments, options

    def _resolved(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {self._resolved(key): self._resolved(part) for key, part in value.items()}
        if isinstance(value, list | tuple):
            return type(value)(self._resolved(part) for part in value)
        if isinstance(value, Milliseconds):
            return self.t.ms(value)
        if isinstance(value, bytes):
            names = {name.encode(): symbol.encode() for name, symbol in self.t.subst.items()}
            for name, symbol in names.items():
                if symbol.startswith(b"<"):
                    value = type(value)(value.replace(symbol, name))
            return value
        if not isinstance(value, str):
            return value
        if isinstance(value, Word):
            if value in self.actors:
                return self.actors[value]
            if value in self.pendings:
                return self.pendings[value]
            actor, _, attribute = value.partition(".")
            if actor in self.actors and attribute in _CONNECTIONS:
                return getattr(self.actors[actor], attribute)
            if value in _CONNECTIONS_OF_STAGE:
                return self.t.ctl if value == "ctl" else self.t.conn()
            if value.startswith("@"):
                return self._named(value[1:])
            if value.startswith("#"):
                return topic_id(self.t, self._named(value[1:]))
        return _SYMBOL.sub(lambda symbol: self._named(symbol[0]), str(value))

    def _named(self, symbol: str) -> str:
        """Return the value recorded as this symbol, or the symbol itself if no value has it."""
        values = [value for value, name in self.t.subst.items() if name == symbol]
        return values[-1] if values else symbol
