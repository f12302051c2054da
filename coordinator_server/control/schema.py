"""JSON Schema of the shapes, and checks of request bodies against their shapes."""

from __future__ import annotations

import sys
import types
from functools import cache
from importlib import import_module
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    NotRequired,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from coordinator_server.control.errors import natural_number, shown

if TYPE_CHECKING:
    from coordinator_server.steps import Computation

_NAMES: dict[object, str] = {str: "string", int: "integer", float: "number", bool: "boolean"}
_ARTICLES = {"string": "a string", "integer": "an integer", "number": "a number"}


@cache
def shape_named(name: str) -> Any:
    """Return the shape "MODULE:CLASS"."""
    module, _, class_name = name.partition(":")
    return getattr(import_module(f"coordinator_server.control.shapes.{module}"), class_name)


@cache
def fields_of(shape: Any) -> dict[str, tuple[Any, str, bool]]:
    """Return type, meaning, and whether it is required, of each field of a shape."""
    fields = {}
    for name, hint in get_type_hints(shape, include_extras=True).items():
        is_required = get_origin(hint) is not NotRequired
        inner = hint if is_required else get_args(hint)[0]
        meaning = ""
        if get_origin(inner) is Annotated:
            inner, meaning = get_args(inner)[:2]
        fields[name] = (inner, meaning, is_required)
    return fields


def schema_of(kind: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON Schema of a type; shapes are added to `definitions`."""
    if is_typeddict(kind):
        if kind.__name__ not in definitions:
            definitions[kind.__name__] = {}  # a placeholder ends recursion
            definitions[kind.__name__] = _object_schema(kind, definitions)
        return {"$ref": f"#/components/schemas/{kind.__name__}"}
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any or kind is object:
        return {}
    if kind in _NAMES:
        return {"type": _NAMES[kind]}
    if origin is Literal:
        return {"type": "string", "enum": list(arguments)}
    if origin is list:
        return {"type": "array", "items": schema_of(arguments[0], definitions)}
    if origin is dict:
        return {"type": "object", "additionalProperties": schema_of(arguments[1], definitions)}
    if origin in (Union, types.UnionType):
        schemas = [
            schema_of(argument, definitions)
            for argument in arguments
            if argument is not types.NoneType
        ]
        if len(schemas) == 1 and set(schemas[0]) == {"type"}:
            return {"type": [schemas[0]["type"], "null"]}
        return {"anyOf": [*schemas, {"type": "null"}]}
    raise TypeError(f"no JSON Schema for {kind}")


def _object_schema(shape: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    properties, required = {}, []
    for name, (kind, meaning, is_required) in fields_of(shape).items():
        properties[name] = schema_of(kind, definitions)
        if meaning:
            properties[name] = {**properties[name], "description": meaning}
        if is_required:
            required.append(name)
    return {
        "type": "object",
        "description": (shape.__doc__ or "").strip(),
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


# --- checks of bodies -----------------------------------------------------------------------------


def shape_error(value: Any, kind: Any, where: str = "the body") -> str | None:
    """Return the first difference of a JSON value from a type, or None."""
    if is_typeddict(kind):
        return _object_error(value, kind, where)
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        if value is None:
            return None
        (inner,) = (element for element in arguments if element is not types.NoneType)
        return shape_error(value, inner, where)
    if origin is Literal:
        if value in arguments:
            return None
        return f"{where} is {shown(value)}, not one of {', '.join(arguments)}"
    if origin is list:
        if not isinstance(value, list):
            return f"{where} is {shown(value)}, not a list"
        errors = (
            shape_error(element, arguments[0], f"{where}[{number}]")
            for number, element in enumerate(value)
        )
        return next(filter(None, errors), None)
    if origin is dict:
        if not isinstance(value, dict):
            return f"{where} is {shown(value)}, not an object"
        errors = (
            shape_error(element, arguments[1], f"{where}.{key[:100]}")
            for key, element in value.items()
        )
        return next(filter(None, errors), None)
    return _plain_error(value, kind, where)


def shape_steps(value: dict[str, Any], shape: Any) -> Computation[str | None]:
    """Return the same as `shape_error`, in steps: one for each item of the lists in an object."""
    lists = {
        name: (items, get_args(fields_of(shape)[name][0])[0])
        for name, items in value.items()
        if isinstance(items, list) and get_origin(fields_of(shape).get(name, (None,))[0]) is list
    }
    error = shape_error(value | {name: [] for name in lists}, shape)
    for name, (items, kind) in lists.items():
        for number, item in enumerate(items):
            error = error or shape_error(item, kind, f"{name}[{number}]")
            if error is not None:
                return error
            yield
    return error


def _object_error(value: Any, shape: Any, where: str) -> str | None:
    if not isinstance(value, dict):
        return f"{where} is {shown(value)}, not an object"
    fields = fields_of(shape)
    for name in value:
        if name not in fields:
            return f"{shown(name)} is no field of {where}: the names are {', '.join(fields)}"
    for name, (kind, meaning, is_required) in fields.items():
        if name in value:
            inner = name if where == "the body" else f"{where}.{name}"
            error = shape_error(value[name], kind, inner)
            if error is not None:
                return error
        elif is_required:
            return f"{name} is missing in {where}: {meaning}"
    return None


def is_text(value: Any) -> bool:
    """Return whether a JSON value is a string that UTF-8 can encode, without lone surrogates."""
    try:
        return isinstance(value, str) and value.encode() is not None
    except UnicodeEncodeError:
        return False


def _plain_error(value: Any, kind: Any, where: str) -> str | None:
    if kind is Any:
        return None
    name = _NAMES[kind]
    if kind is str and isinstance(value, str):
        if not is_text(value):
            return f"{where} is {shown(value)}, which has a lone surrogate"
        return None
    if kind is bool and isinstance(value, bool):
        return None
    if kind is float and isinstance(value, int | float) and not isinstance(value, bool):
        if not -sys.float_info.max <= value <= sys.float_info.max:
            return f"{where} is {shown(value)}, which does not fit into a double"
        return None
    if kind is int and isinstance(value, int) and not isinstance(value, bool):
        if natural_number(str(abs(value))) is None:
            return f"{where} is {shown(value)}, which does not fit into 64 bits"
        return None
    return f"{where} is {shown(value)}, not {_ARTICLES.get(name, 'true or false')}"
