"""Write the table of docs/protocol-coverage.md: supported versions, observed use, differences."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from protocol.registry import SPEC_BY_KEY, SPECS, ApiSpec
from tests.generated_parts import with_part
from tests.support import ROOT

PAGE = ROOT / "docs" / "protocol-coverage.md"
_SEEN = Path(__file__).with_name("seen.json")
_VECTORS = ROOT / "tests" / "codec" / "data" / "vectors.jsonl.gz"

CLIENTS = {
    "apache-kafka-java": "Java",
    "confluent-kafka-python": "confluent-kafka",
    "librdkafka": "librdkafka",
    "kafka-python": "kafka-python",
    "aiokafka": "aiokafka",
    "kgo": "franz-go",
    "kafkajs": "kafkajs",
    "kafka_go": "kafka-go",
    "sarama": "sarama",
    "coordinator-server": "our scripts",
}
"""Names on the page by client name (ApiVersions) or prefix of the client id."""

SUITES = {
    "tests/conformance": "conformance",
    "tests/scripts": "scripts",
    "tests/oracle": "oracle",
    "tests/clients": "clients",
}

DIFFERS = {
    "Produce": "errors of several partitions are in the order of the request; [topics](topics.md), "
    "[record batches](record-batches.md#where-it-differs)",
    "Fetch": "the last batch of a response is complete; "
    "[topics](topics.md#where-the-answers-differ-from-kafkas)",
    "ListOffsets": "reads batches with wrong record lengths; "
    "[record batches](record-batches.md#where-it-differs)",
    "Metadata": "the response that creates a topic has the topic; "
    "[topics](topics.md#where-the-answers-differ-from-kafkas)",
    "CreateTopics": "names that collide within one request; "
    "[topics](topics.md#where-the-answers-differ-from-kafkas)",
    "DescribeConfigs": "one broker logger; "
    "[topics](topics.md#where-the-answers-differ-from-kafkas)",
    "AlterConfigs": "NaN and settings of listeners; "
    "[dynamic configs](dynamic-configs.md#what-differs-from-kafka)",
    "JoinGroup": "every request is answered; "
    "[coordinator](coordinator.md#where-we-differ-from-kafka)",
    "SyncGroup": "every request is answered; "
    "[coordinator](coordinator.md#where-we-differ-from-kafka)",
    "FindCoordinator": "the coordinator's topic is there at once; "
    "[decision 3](decisions/0003-offsets-topic-at-once.md)",
    "GetTelemetrySubscriptions": "patterns are those of RE2; "
    "[telemetry](telemetry.md#differences-from-kafka)",
    "PushTelemetry": "at most 16 MiB; [telemetry](telemetry.md#differences-from-kafka)",
    "ConsumerGroupHeartbeat": "[consumer groups](consumer-groups.md#where-it-differs-from-kafka)",
    "ShareGroupHeartbeat": "[share groups](share-groups.md#where-it-differs-from-kafka)",
    "ShareFetch": "[share groups](share-groups.md#where-it-differs-from-kafka)",
    "ShareAcknowledge": "[share groups](share-groups.md#where-it-differs-from-kafka)",
    "DescribeShareGroupOffsets": "a partition that does not exist is answered; "
    "[share groups](share-groups.md#where-it-differs-from-kafka)",
    **dict.fromkeys(
        (
            "InitializeShareGroupState",
            "ReadShareGroupState",
            "DeleteShareGroupState",
            "ReadShareGroupStateSummary",
        ),
        "the state topic is there at once; [decision 3](decisions/0003-offsets-topic-at-once.md)",
    ),
    "WriteShareGroupState": "at most 20 000 state batches of a share partition; "
    "[share groups](share-groups.md#where-it-differs-from-kafka)",
    "StreamsGroupHeartbeat": "[streams groups](streams-groups.md#where-it-differs-from-kafka)",
    "InitProducerId": "answered at once, without two-phase commit; "
    "[transactions](transactions.md#differences-from-kafka)",
    "EndTxn": "answered when the markers are written; "
    "[transactions](transactions.md#differences-from-kafka)",
    "CreateDelegationToken": "at most 2 MiB of tokens; [SASL](sasl.md#what-differs-from-kafka)",
    "SaslHandshake": "no GSSAPI; [SASL](sasl.md#what-differs-from-kafka)",
    "SaslAuthenticate": "a large or early request closes the connection; "
    "[SASL](sasl.md#what-differs-from-kafka)",
    "AlterClientQuotas": "[quotas](quotas.md#what-is-different-from-kafka)",
    "IncrementalAlterConfigs": "NaN and settings of listeners; "
    "[dynamic configs](dynamic-configs.md#what-differs-from-kafka)",
    "UpdateFeatures": "no level can change: FEATURE_UPDATE_FAILED; [topics](topics.md)",
    "UnregisterBroker": "a single broker closes its listener; [cluster](cluster.md)",
}
"""APIs whose answers differ from Kafka's, with links to the reasons."""


class Seen(NamedTuple):
    """Observed versions of one API, by client and by suite."""

    clients: dict[str, list[int]]
    suites: dict[str, list[int]]


def condense(lines: Iterable[str]) -> dict[str, Any]:
    """Return a summary of the lines that `observed.sitecustomize` wrote."""
    seen: dict[str, dict[str, dict[str, set[int]]]] = {}
    for line in lines:
        test, software, _, key, version = line.rstrip("\n").split("\t")
        spec = SPEC_BY_KEY.get(int(key))
        if spec is None or not spec.min_version <= int(version) <= spec.max_version:
            continue  # unsupported API or version
        api = seen.setdefault(spec.name, {"clients": {}, "suites": {}})
        for start, client in CLIENTS.items():
            if software.startswith(start):
                api["clients"].setdefault(client, set()).add(int(version))
                break
        for start, suite in SUITES.items():
            if test.startswith(start):
                api["suites"].setdefault(suite, set()).add(int(version))
    return {
        api: {
            kind: {name: sorted(found[kind][name]) for name in sorted(found[kind])}
            for kind in found
        }
        for api, found in sorted(seen.items())
    }


def write_seen(lines: Iterable[str]) -> None:
    """Write `seen.json`: the API versions that each client and each suite requested."""
    _SEEN.write_text(json.dumps(condense(lines), indent=1) + "\n")


def read_seen() -> dict[str, Seen]:
    """Return the observed use by API."""
    return {api: Seen(**found) for api, found in json.loads(_SEEN.read_text()).items()}


def kafka_ranges() -> dict[str, tuple[int, int]]:
    """Return the oldest and newest stable version of each API that Kafka's brokers serve."""
    return {
        one["name"]: (one["min"], one["stable_max"])
        for one in _vectors()
        if one["kind"] == "api_range" and "broker" in one["listeners"]
    }


def page() -> str:
    """Return the page with up-to-date generated parts."""
    vectors = Counter(one["name"] for one in _vectors() if one["kind"] in ("request", "response"))
    seen, ranges = read_seen(), kafka_ranges()
    head = "| key | API | versions | clients | held by | differs |\n|---|---|---|---|---|---|\n"
    rows = [_row(spec, ranges, vectors, seen.get(spec.name, Seen({}, {}))) for spec in SPECS]
    text = PAGE.read_text(encoding="utf-8")
    return with_part(text, "APIs", head + "\n".join(rows) + "\n")


def _row(
    spec: ApiSpec, ranges: dict[str, tuple[int, int]], vectors: Counter[str], seen: Seen
) -> str:
    served = spec.min_version, spec.max_version
    versions = _span(*served)
    if spec.name in ranges and ranges[spec.name] != served:
        versions += f" (Kafka: {_span(*ranges[spec.name])})"
    suites = [f"{name} {_ranges(found)}" for name, found in seen.suites.items()]
    cells = [
        str(spec.key),
        spec.name,
        versions,
        "; ".join(f"{name} {_ranges(found)}" for name, found in seen.clients.items()),
        "; ".join([f"{vectors[spec.name]} vectors", *suites]),
        DIFFERS.get(spec.name, ""),
    ]
    return f"| {' | '.join(cells)} |"


def _vectors() -> Iterator[dict[str, Any]]:
    with gzip.open(_VECTORS, "rt") as lines:
        for line in lines:
            yield json.loads(line)


def _span(first: int, last: int) -> str:
    return f"{first}-{last}" if first != last else f"{first}"


def _ranges(versions: list[int]) -> str:
    """Return ascending versions as "v0-3, 5"."""
    spans: list[list[int]] = []
    for version in versions:
        if spans and version == spans[-1][1] + 1:
            spans[-1][1] = version
        else:
            spans.append([version, version])
    return "v" + ", ".join(_span(*span) for span in spans)
