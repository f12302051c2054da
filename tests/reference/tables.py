"""Read a Kafka release's settings, error codes, features, API versions and tool options."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from protocol.apis.api_versions import ApiVersionsRequest, ApiVersionsResponse
from protocol.codec import decoder, encoder
from protocol.errors import ErrorCode
from protocol.registry import API_VERSIONS_KEY, SPECS
from tests.oracle.kafka_process import jars
from tests.support import ROOT, connect, request

SETTINGS = ROOT / "tests" / "data" / "reference" / "settings.json"
_DESCRIBE = Path(__file__).with_name("Describe.java")
_API_VERSIONS = 4  # ApiVersions v4 has all features in every Kafka since 4.0


def described() -> dict[str, Any]:
    """Return the tables that `Describe.java` prints from the jars."""
    command = ["java", "-cp", f"{jars()}/*", str(_DESCRIBE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    tables: dict[str, Any] = json.loads(done.stdout)
    return tables


def setting_differences(theirs: Mapping[str, Any]) -> Iterator[str]:
    """Yield the rows of the recorded tables of settings that differ in a release."""
    recorded = json.loads(SETTINGS.read_text())
    for table in recorded.keys() - {"version"}:
        yield from changed(table, recorded[table], theirs[table])


def error_differences(theirs: Mapping[str, Any]) -> Iterator[str]:
    """Yield the error codes and texts that differ in a release."""
    ours = {one.name: [int(one), one.message] for one in ErrorCode}
    yield from changed("error", ours, theirs["errors"])


def api_differences(kafka: str, ours: str) -> Iterator[str]:
    """Yield the differences between the APIs that a running Kafka and our broker advertise.

    Versions and features are compared as well. Both brokers are given as HOST:PORT.
    """
    yield from changed("API or feature", _advertised(ours), _advertised(kafka))


def served_versions(address: str) -> dict[int, tuple[int, int]]:
    """Return the first and last version that the broker at HOST:PORT serves, by API key."""
    return {one.api_key: (one.min_version, one.max_version) for one in _answer(address).api_keys}


def _answer(address: str) -> ApiVersionsResponse:
    asked = ApiVersionsRequest(client_software_name="reference", client_software_version="1")
    body = encoder(ApiVersionsRequest, _API_VERSIONS)(asked)
    with connect(address) as wire:
        frame = wire.ask(request(API_VERSIONS_KEY, _API_VERSIONS, bytes(body), flexible=True))
    answer, _ = decoder(ApiVersionsResponse, _API_VERSIONS)(frame, 4)
    return answer


def _advertised(address: str) -> dict[str, list[int]]:
    """Return the first and last versions of APIs and levels of features, and finalized levels."""
    answer = _answer(address)
    names = {one.key: one.name for one in SPECS}
    found = {
        names.get(one.api_key, str(one.api_key)): [one.min_version, one.max_version]
        for one in answer.api_keys
    }
    final = {one.name: one.max_version_level for one in answer.finalized_features}
    for one in answer.supported_features:
        found[one.name] = [one.min_version, one.max_version, final.get(one.name, 0)]
    return found


def changed(what: str, ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> Iterator[str]:
    """Yield the new and changed entries of `theirs`, and the missing ones."""
    for name in sorted(ours.keys() | theirs.keys()):
        if name not in ours:
            yield f"{what} {name} is new: {theirs[name]}"
        elif name not in theirs:
            yield f"{what} {name} is not there, ours: {ours[name]}"
        elif ours[name] != theirs[name]:
            yield f"{what} {name}: {theirs[name]}, ours {ours[name]}"
