"""Configs of client metrics resources (KIP-714): valid values and descriptions."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any

from protocol.errors import ErrorCode
from tests.conformance.stage import Area, Stage

AREA = Area("client_metrics")

SET, DELETE, APPEND, SUBTRACT = range(4)
PAUSE_SECONDS = 0.12
"""Kafka's brokers apply the metadata log a moment after the response."""

_CLIENT_METRICS = 16


class Subscription:
    """A resource of this scenario, shown as <name>."""

    def __init__(self, t: Stage, suffix: str = "sub") -> None:
        self.t = t
        self.name = f"{suffix}-{secrets.token_hex(6)}"
        self.symbol = f"<{suffix}>"

    def set(self, **configs: str | None) -> None:
        """Set configs, or delete those that are None, unrecorded."""
        changes = [
            (name.replace("_", "."), DELETE if value is None else SET, value)
            for name, value in configs.items()
        ]
        answer = self._alter(changes)
        assert answer["responses"][0]["error_code"] == 0, answer
        self.t.nap(PAUSE_SECONDS)

    def alter(
        self, note: str, *changes: tuple[str, int, str | None], validate_only: bool = False
    ) -> None:
        """Send IncrementalAlterConfigs and record the answer."""
        (result,) = self._alter(changes, validate_only=validate_only)["responses"]
        self._record(f"alter {note}", result)

    def replace(self, note: str, **configs: str | None) -> None:
        """Send AlterConfigs and record the answer."""
        given = [{"name": key.replace("_", "."), "value": one} for key, one in configs.items()]
        resource = self._resource() | {"configs": given}
        body = {"resources": [resource], "validate_only": False}
        (result,) = self.t.raw("AlterConfigs", 2, body)["responses"]
        self._record(f"replace {note}", result)

    def describe(
        self, note: str = "", keys: Sequence[str] | None = None, name: str | None = None
    ) -> None:
        """Send DescribeConfigs and record the answer."""
        self.t.nap(PAUSE_SECONDS)
        resource = self._resource() | {"configuration_keys": keys}
        if name is not None:
            resource["resource_name"] = name
        body = {"resources": [resource], "include_synonyms": True}
        (result,) = self.t.raw("DescribeConfigs", 4, body)["results"]
        self._record(f"describe {note}".strip(), result)

    def is_listed(self, note: str = "") -> None:
        """Send both versions of ListConfigResources and record whether the resource is listed."""
        self.t.nap(PAUSE_SECONDS)
        kinds = {}
        for version, types in ((0, None), (1, [_CLIENT_METRICS]), (1, [2, 4, 8, 32]), (1, [])):
            body = {} if types is None else {"resource_types": types}
            answer = self.t.raw("ListConfigResources", version, body)
            kinds[f"v{version} {types}"] = [
                one.get("resource_type")
                for one in answer["config_resources"]
                if one["resource_name"] == self.name
            ]
        self.t.rec(f"listed {note}".strip(), kinds)

    def _alter(
        self, changes: Sequence[tuple[str, int, str | None]], *, validate_only: bool = False
    ) -> Any:
        configs = [
            {"name": name, "config_operation": operation, "value": value}
            for name, operation, value in changes
        ]
        resource = self._resource() | {"configs": configs}
        body = {"resources": [resource], "validate_only": validate_only}
        return self.t.raw("IncrementalAlterConfigs", 1, body)

    def _resource(self) -> dict[str, Any]:
        return {"resource_type": _CLIENT_METRICS, "resource_name": self.name}

    def _record(self, label: str, result: dict[str, Any]) -> None:
        shown = {**result, "error_code": ErrorCode(result["error_code"]).name}
        if shown["resource_name"] == self.name:
            shown["resource_name"] = self.symbol
        self.t.rec(label, shown)


@AREA.scenario
def configs_described(t: Stage) -> None:
    """How is a resource described if missing, with some configs, with all, and again with none?"""
    one = Subscription(t)
    one.describe("missing")
    one.is_listed("missing")
    one.alter("interval", ("interval.ms", SET, "5000"))
    one.describe("interval")
    one.is_listed("interval")
    one.alter(
        "more",
        ("metrics", SET, "org.apache.kafka.consumer., org.apache.kafka.producer."),
        ("match", SET, "client_id=a.*, client_software_name=librdkafka"),
    )
    one.describe("all")
    one.describe("keys", ["metrics", "nope", "match"])
    one.describe("no keys", [])
    one.alter("less", ("interval.ms", DELETE, None), ("match", DELETE, ""))
    one.describe("less")
    one.alter("none", ("metrics", DELETE, None), ("nope", DELETE, None))
    one.describe("none")
    one.is_listed("none")
    one.describe("no name", name="")


_VALUES: dict[str, tuple[str, ...]] = {
    "interval.ms": (
        "99", "100", "3600000", "3600001", "-1", "0", "abc", "", " 100 ", "1e3", "+200",
        "2147483648",
    ),
    "metrics": ("", "*", "a,b", "a,,b", " a , b ", "a,a", ","),
    "match": (
        "", "client_id=a", "client_id", "client_id=", "=a", "client_id=a=b", "nope=a",
        "client_id=[", "client_id=a,client_id=b", "client_id=a,", " client_id = a ",
        "CLIENT_ID=a", "client_instance_id=x,client_software_name=y,client_software_version=1.*",
        "client_source_address=127.*,client_source_port=90+", "client_id=(a", "client_id=*",
        "client_id=a{2,3}", "client_id=a==", "client_id==",
    ),
    "Metrics": ("a",),
    "": ("a",),
}  # fmt: skip


@AREA.each(config=list(_VALUES))
def values(t: Stage, config: str) -> None:
    """Which values of {config} are valid, and how is each described?"""
    for value in _VALUES[config]:
        one = Subscription(t)
        one.alter(repr(value), (config, SET, value))
        one.describe(repr(value))


@AREA.scenario
def operations(t: Stage) -> None:
    """What do append, subtract, null, repeated configs and unknown operations return?"""
    one = Subscription(t)
    one.alter("append", ("metrics", APPEND, "a,b"))
    one.describe("append")
    one.alter("append again", ("metrics", APPEND, "b,c"))
    one.describe("append again")
    one.alter("subtract", ("metrics", SUBTRACT, "a,d"))
    one.describe("subtract")
    one.alter("subtract all", ("metrics", SUBTRACT, "b,c"))
    one.describe("subtract all")
    one.alter("append match", ("match", APPEND, "client_id=a"))
    one.alter("append a wrong match", ("match", APPEND, "nope=a"))
    one.describe("append match")
    for operation in (APPEND, SUBTRACT):
        one.alter(f"interval {operation}", ("interval.ms", operation, "100"))
        one.alter(f"unknown {operation}", ("nope", operation, "100"))
    one.alter("null", ("metrics", SET, None))
    one.alter("twice", ("metrics", SET, "a"), ("metrics", SET, "b"))
    one.alter("operation 9", ("metrics", 9, "a"))
    one.alter("nothing")
    one.alter("two wrong", ("interval.ms", SET, "1"), ("nope", SET, "b"))
    one.alter("wrong match and interval", ("match", SET, "x"), ("interval.ms", SET, "1"))
    one.alter("only validated", ("metrics", SET, "z"), validate_only=True)
    one.alter("wrong, only validated", ("interval.ms", SET, "1"), validate_only=True)
    one.describe("end")


@AREA.scenario
def replaced(t: Stage) -> None:
    """What does AlterConfigs of a resource return for valid, invalid and no configs?"""
    one = Subscription(t)
    one.replace("two", metrics="a,b", interval_ms="100")
    one.describe("two")
    one.replace("one", match="client_id=a")
    one.describe("one")
    one.replace("wrong", interval_ms="1")
    one.replace("unknown", nope="1")
    one.replace("null", metrics=None)
    one.describe("still")
    one.replace("none")
    one.describe("none")
    one.is_listed("none")


@AREA.scenario
def names(t: Stage) -> None:
    """Which resource names are valid: empty, long, with special characters?"""
    for name in ("", " ", "a b", "ä", "a/b", "x" * 300):
        one = Subscription(t)
        one.name = name
        one.alter(name[:9], ("metrics", SET, "a"))
        one.describe(name[:9])
        one.alter(f"{name[:9]} deleted", ("metrics", DELETE, None))
