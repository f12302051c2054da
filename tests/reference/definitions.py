"""Compare Kafka's message definitions, from its jars, with our declarations."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterator, Mapping
from importlib import import_module
from itertools import zip_longest
from pathlib import Path
from pkgutil import iter_modules
from typing import Any, NamedTuple

import protocol
from protocol.registry import SPECS
from protocol.schema import ArrayType, FieldType, Message

Definition = Mapping[str, Any]
_TYPES = {"float64": "FLOAT64", "records": "RECORDS", "uuid": "UUID"}
_COMMENT = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*[^*]*\*+(?:[^/*][^*]*\*+)*/')
_RENAMED = {"RequestApiKey": "ApiKey", "RequestApiVersion": "ApiVersion"}  # names of header fields
_NUMBERS = ("INT8", "INT16", "UINT16", "INT32", "INT64", "FLOAT64")


class Place(NamedTuple):
    """The wire form and the default value of one message field at one version."""

    path: str
    type: str
    is_nullable: bool
    tag: int | None
    default: object

    def __str__(self) -> str:
        marks = [f"tag {self.tag}"] if self.tag is not None else []
        marks += ["nullable"] if self.is_nullable else []
        marks += [] if self.default is None else [f"default {self.default!r}"]
        return " ".join((f"{self.path}: {self.type}", *marks))


def read_definitions(jars: Path) -> dict[str, Definition]:
    """Return the definitions of all jars by message name."""
    found = {}
    for jar in sorted(jars.glob("kafka*.jar")):
        with zipfile.ZipFile(jar) as archive:
            for name in archive.namelist():
                if name.startswith("common/message/") and name.endswith(".json"):
                    definition = json.loads(_COMMENT.sub(r"\1", archive.read(name).decode()))
                    found[definition["name"]] = definition
                    # This project's broker serves requests to a broker and records of a
                    # coordinator.
                    definition["isServed"] = (
                        "broker" in definition.get("listeners", ()) or "coordinator" in jar.name
                    )
    # Only requests have latestVersionUnstable; responses copy their request's value.
    for name, definition in found.items():
        request = found.get(name.removesuffix("Response").removesuffix("Request") + "Request", {})
        definition["latestVersionUnstable"] = request.get("latestVersionUnstable", False)
        definition["isServed"] |= request.get("isServed", False)
    return found


def declarations() -> dict[str, type[Message]]:
    """Return our outermost messages by Kafka's names."""
    found: dict[str, type[Message]] = {}
    for spec in SPECS:
        found[f"{spec.name}Request"] = spec.request_type
        found[f"{spec.name}Response"] = spec.response_type
    for module in iter_modules(protocol.__path__):
        for value in vars(import_module(f"protocol.{module.name}")).values():
            if isinstance(value, type) and issubclass(value, Message) and "VERSIONS" in vars(value):
                found[value.__name__] = value
    del found[Message.__name__]
    return found


def differences(definition: Definition, ours: type[Message]) -> Iterator[str]:
    """Yield the differences between our declaration and Kafka's, version by version."""
    first, last = _range(definition["validVersions"])
    last -= bool(definition.get("latestVersionUnstable"))
    if (first, last) != ours.VERSIONS:
        yield f"versions {first}-{last}, ours {ours.VERSIONS[0]}-{ours.VERSIONS[1]}"
    flexible = definition.get("flexibleVersions", "none")
    for version in range(max(first, ours.VERSIONS[0]), min(last, ours.VERSIONS[1]) + 1):
        if _includes(flexible, version) != ours.is_flexible(version):
            yield f"v{version}: whether it is flexible"
        structs = {one["name"]: one for one in definition.get("commonStructs", ())}
        theirs = _theirs(definition["fields"], structs, version, flexible)
        for wanted, found in zip_longest(theirs, _ours(ours, version)):
            if not _is_same(wanted, found):
                yield f"v{version}: {wanted or 'no more'}, ours {found or 'no more'}"
                break


def _is_same(wanted: Place | None, found: Place | None) -> bool:
    """Return whether two fields are equal. Our default of a nullable string is null, Kafka's ""."""
    if wanted and found and wanted.is_nullable and wanted.tag is None and wanted.default == "":
        found = found._replace(default=found.default or "")
    return wanted == found


def _theirs(
    fields: list[Any], structs: Mapping[str, Any], version: int, flexible: str, outer: str = ""
) -> Iterator[Place]:
    for one in fields:
        tagged = "taggedVersions" in one and _includes(one["taggedVersions"], version)
        # In records of the quorum, some tagged fields have `taggedVersions` but no `versions`.
        if not tagged and not _includes(one.get("versions", "none"), version):
            continue
        path = outer + _snake_case(_RENAMED.get(one["name"], one["name"]))
        kind = one["type"].removeprefix("[]")
        is_array = one["type"] != kind
        nested = one.get("fields") or structs.get(kind, {}).get("fields")
        name = "struct" if nested else _TYPES.get(kind, kind.upper())
        nullable = _includes(one.get("nullableVersions", "none"), version)
        yield Place(
            path,
            f"[]{name}" if is_array else name,
            nullable,
            one["tag"] if tagged else None,
            None if is_array or nested else _default(name, one.get("default", "")),
        )
        if nested:
            yield from _theirs(nested, structs, version, flexible, f"{path}.")


def _ours(message: type[Message], version: int, outer: str = "") -> Iterator[Place]:
    for one in message.FIELDS:
        if not one.in_version(version):
            continue
        kind: FieldType | type[Message] = one.type
        is_array = isinstance(kind, ArrayType)
        if isinstance(kind, ArrayType):
            kind = kind.element
        is_nested = isinstance(kind, type)
        name = "struct" if isinstance(kind, type) else kind.name.removeprefix("PLAIN_")
        path = outer + one.name
        yield Place(
            path,
            f"[]{name}" if is_array else name,
            one.nullable_in(version),
            one.tag,
            None if is_array or is_nested or name == "RECORDS" else one.default_value(),
        )
        if isinstance(kind, type):
            yield from _ours(kind, version, f"{path}.")


def _default(kind: str, text: str) -> object:
    """Return the default value of a field from its text in Kafka's definition."""
    text = str(text)
    if text == "null" or kind == "RECORDS":
        return None
    if kind == "BOOL":
        return text.lower() == "true"
    if kind in _NUMBERS:
        return float(text or 0) if kind == "FLOAT64" else int(text or "0", 0)
    if kind == "UUID":
        return bytes(16)
    return b"" if kind == "BYTES" else text


def _snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def _range(versions: str) -> tuple[int, int]:
    """Return first and last version of "3", "3-5" or "3+"; for "none" return an empty range."""
    if versions == "none":
        return 1, 0
    if versions.endswith("+"):
        return int(versions[:-1]), 2**15 - 1
    first, _, last = versions.partition("-")
    return int(first), int(last or first)


def _includes(versions: str, version: int) -> bool:
    first, last = _range(versions)
    return first <= version <= last
