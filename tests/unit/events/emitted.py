"""The events that a program emits, with their fields, as found in its source.

`LOG.emit(name, ...)` writes an event; `effects.event(name, ...)` in the group coordinator collects
one for the task to write. Name and fields are followed through variables, through parameters to the
callers, and through the functions and literals of `**fields`. A name or field that cannot be
followed is an error, so that no event is missed.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

Function = ast.FunctionDef | ast.AsyncFunctionDef
SINKS = {"emit", "event"}


class UnseenError(AssertionError):
    """An event whose name or fields cannot be found in the source."""


class Emitted(NamedTuple):
    """An event that is emitted at one place; `has_traceback` is set if exc_info is passed."""

    name: str
    fields: frozenset[str]
    has_traceback: bool
    where: str


class _Call(NamedTuple):
    """A call, and the function that contains the call (None: the module)."""

    node: ast.Call
    function: Function | None
    where: str


class Program:
    """The modules of a program: label -> source."""

    def __init__(self, sources: Mapping[str, str]) -> None:
        self._functions: dict[str, list[Function]] = {}
        self._calls: dict[str, list[_Call]] = {}
        for label, source in sources.items():
            self._read(ast.parse(source), None, label)

    def _read(self, parent: ast.AST, function: Function | None, label: str) -> None:
        for node in ast.iter_child_nodes(parent):
            if isinstance(node, Function):
                self._functions.setdefault(node.name, []).append(node)
            elif isinstance(node, ast.Call):
                where = f"{label}:{node.lineno}"
                self._calls.setdefault(_name(node.func), []).append(_Call(node, function, where))
            elif isinstance(node, ast.Attribute) and node.attr in SINKS:
                assert isinstance(parent, ast.Call), f"{label}:{node.lineno}: not called"
                assert parent.func is node, f"{label}:{node.lineno}: not called"
            self._read(node, node if isinstance(node, Function) else function, label)

    def emitted(self) -> Iterator[Emitted]:
        """Yield the event of every place that emits one. Raises UnseenError."""
        for sink in SINKS:
            for call in self._calls.get(sink, ()):
                fields = frozenset(self._fields(call))
                for name in self._names(call.node.args[0], call):
                    plain = fields - {"exc_info"}
                    yield Emitted(name, plain, plain != fields, call.where)

    def _names(self, node: ast.expr, call: _Call) -> set[str]:
        """Return the possible names of an expression in the function of `call`."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return {node.value}
        if isinstance(node, ast.IfExp):
            return self._names(node.body, call) | self._names(node.orelse, call)
        if isinstance(node, ast.Name) and call.function is not None:
            values = list(_assigned(node.id, call.function))
            if values:
                return set().union(*[self._names(value, call) for value in values])
            if _is_collected(node.id, call.function):
                return set()  # the events are found where they are added to `effects.events`
            if node.id in _parameters(call.function):
                return self._names_of_parameter(node.id, call.function)
        raise UnseenError(f"{call.where}: the name {ast.unparse(node)}")

    def _names_of_parameter(self, parameter: str, function: Function) -> set[str]:
        # Do not count `self`, because the call of a method does not pass it explicitly.
        is_method = _parameters(function)[0] in ("self", "cls")
        position = _parameters(function).index(parameter) - is_method
        names: set[str] = set()
        for caller in self._calls.get(function.name, ()):
            if isinstance(caller.node.func, ast.Attribute) == is_method:
                given = [one.value for one in caller.node.keywords if one.arg == parameter]
                names |= self._names((given or [caller.node.args[position]])[0], caller)
        if not names:
            raise UnseenError(f"{function.name}: {parameter} is given by no call")
        return names

    def _fields(self, call: _Call) -> set[str]:
        fields: set[str] = set()
        for keyword in call.node.keywords:
            fields |= {keyword.arg} if keyword.arg else self._keys(keyword.value, call)
        return fields

    def _keys(self, node: ast.expr, call: _Call) -> set[str]:
        """Return the keys of a dict in the function of `call`."""
        if isinstance(node, ast.Dict):
            return set().union(*[self._names(key, call) for key in node.keys if key is not None])
        if isinstance(node, ast.Name) and call.function is not None:
            values = list(_assigned(node.id, call.function))
            if values:
                keys = [self._keys(value, call) for value in values]
                return set().union(*keys, _stored(node.id, call.function))
            if _is_collected(node.id, call.function):
                return set()
        if isinstance(node, ast.DictComp) and ast.unparse(node.generators[0].iter).endswith(
            ".items()"
        ):
            items = node.generators[0].iter
            assert isinstance(items, ast.Call)
            assert isinstance(items.func, ast.Attribute)
            return self._keys(items.func.value, call)
        if isinstance(node, ast.Call):
            return self._keys_of_result(node, call)
        raise UnseenError(f"{call.where}: the fields {ast.unparse(node)}")

    def _keys_of_result(self, node: ast.Call, call: _Call) -> set[str]:
        functions = self._functions.get(_name(node.func), [])
        keys = [
            self._keys(result.value, call._replace(function=function))
            for function in functions
            for result in ast.walk(function)
            if isinstance(result, ast.Return) and result.value is not None
        ]
        if not keys:
            raise UnseenError(f"{call.where}: the fields {ast.unparse(node)}")
        return set().union(*keys)


def _name(function: ast.expr) -> str:
    """Return the last name of a called function."""
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _parameters(function: Function) -> list[str]:
    arguments = function.args
    return [one.arg for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]


def _assigned(name: str, function: Function) -> Iterator[ast.expr]:
    """Yield the values that a function assigns to a local variable."""
    for node in ast.walk(function):
        targets: Iterable[ast.expr] = ()
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, ast.AnnAssign):
            targets = [node.target]
        for target in targets:
            if isinstance(target, ast.Name) and target.id == name:
                assert isinstance(node, ast.Assign | ast.AnnAssign)
                assert node.value is not None
                yield node.value


def _stored(name: str, function: Function) -> set[str]:
    """Return the keys that a function sets in a local dict by name[key] = ..."""
    return {
        node.slice.value
        for node in ast.walk(function)
        if isinstance(node, ast.Subscript)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
        and node.value.id == name
        and isinstance(node.slice, ast.Constant)
        and isinstance(node.slice.value, str)
    }


def _is_collected(name: str, function: Function) -> bool:
    """Return whether a variable iterates over collected events: `for name, ... in x.events`."""
    return any(
        isinstance(node, ast.For)
        and isinstance(node.iter, ast.Attribute)
        and node.iter.attr == "events"
        and name in {one.id for one in ast.walk(node.target) if isinstance(one, ast.Name)}
        for node in ast.walk(function)
    )
