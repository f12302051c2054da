"""Compile schemas.json from the message definitions in a Kafka clients jar.

    python -m tests.conformance.compile_schemas KAFKA_CLIENTS.jar [API ..]

The file's APIs are compiled again; APIs named as arguments are added.
"""

from __future__ import annotations

import json
import re
import sys
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

_FILE = Path(__file__).with_name("schemas.json")
_EVERY_LATER_VERSION = 99

_RENAMED = {("TxnOffsetCommit", "generation_id_or_member_epoch"): "generation_id"}
"""TxnOffsetCommit has renamed the field with version 6; scenarios use the first name."""


def main(jar: str, *added: str) -> None:
    """Write schemas.json."""
    definitions = dict(_definitions(zipfile.ZipFile(jar)))
    names = [*json.loads(_FILE.read_text()), *added]
    lines = [f"{json.dumps(name)}: {json.dumps(_schema(name, definitions))}" for name in names]
    _FILE.write_text("{\n" + ",\n".join(dict.fromkeys(lines)) + "\n}\n")


def _definitions(jar: zipfile.ZipFile) -> Iterable[tuple[str, Any]]:
    for name in jar.namelist():
        if name.startswith("common/message/") and name.endswith(".json"):
            text = re.sub(r"^\s*//.*$", "", jar.read(name).decode(), flags=re.M)
            definition = json.loads(re.sub(r"(?<![:\"])//[^\n\"]*$", "", text, flags=re.M))
            yield definition["name"], definition


def _schema(api: str, definitions: Mapping[str, Any]) -> dict[str, Any]:
    request, response = definitions[api + "Request"], definitions[api + "Response"]
    schema = {
        "key": request["apiKey"],
        "valid": _versions(request["validVersions"]),
        "flex": _versions(request.get("flexibleVersions")),
    }
    for side, message in (("req", request), ("resp", response)):
        structs = {struct["name"]: struct["fields"] for struct in message.get("commonStructs", [])}
        schema[side] = [_field(api, field, structs) for field in message["fields"]]
    return schema


def _field(api: str, field: Mapping[str, Any], structs: Mapping[str, Any]) -> dict[str, Any]:
    kind = field["type"]
    element = kind.removeprefix("[]")
    is_struct = element[0].isupper()
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", field["name"]).lower()
    compiled: dict[str, Any] = {"n": _RENAMED.get((api, name), name)}
    compiled["t"] = kind.replace(element, "struct") if is_struct else kind
    compiled["v"] = _versions(field["versions"])
    if _versions(field.get("nullableVersions")):
        compiled["null"] = _versions(field["nullableVersions"])
    if "default" in field:
        compiled["d"] = field["default"]
    if "tag" in field:
        compiled["tag"], compiled["tagv"] = field["tag"], _versions(field["taggedVersions"])
    if is_struct:
        inner = field.get("fields") or structs[element]
        compiled["f"] = [_field(api, one, structs) for one in inner]
    return compiled


def _versions(text: str | None) -> list[int] | None:
    """Return the range [first, last] of "3", "3-5" or "3+"; None for "none"."""
    matched = re.fullmatch(r"(\d+)(?:-(\d+)|(\+))?", text or "")
    if matched is None:
        return None
    first, last, is_open = matched.groups()
    return [int(first), _EVERY_LATER_VERSION if is_open else int(last or first)]


if __name__ == "__main__":
    main(*sys.argv[1:])
