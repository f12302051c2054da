"""Group configs: IncrementalAlterConfigs and DescribeConfigs of resource type GROUP (32)."""

from __future__ import annotations

from typing import Any

from tests.conformance import group_settings
from tests.conformance.consumer_members import ConsumerMember, error, look, silently
from tests.conformance.group_settings import DELETE, GROUP, SET
from tests.conformance.stage import Area, Stage

AREA = Area("consumer_configs", "d")

SESSION = "consumer.session.timeout.ms"
HEARTBEAT = "consumer.heartbeat.interval.ms"
INTERVAL = "consumer.assignment.interval.ms"


@AREA.scenario
def names_of_all(t: Stage) -> None:
    """Which configs does a group have?"""
    t.rec("names", sorted(one["name"] for one in group_settings.described(t)))


@AREA.each(version=[1, 2, 3, 4])
def whole_descriptions(t: Stage, version: int) -> None:
    """Which fields does DescribeConfigs {version} return before and after a config change?"""
    for label in ("before", "after"):
        resource = {"resource_type": GROUP, "resource_name": t.g}
        body = {"resources": [resource | {"configuration_keys": [SESSION, INTERVAL]}]}
        flags = {"include_synonyms": True}
        if version >= 3:
            flags["include_documentation"] = True
        answer = t.raw("DescribeConfigs", version, body | flags)["results"][0]
        shown = t.norm(answer)
        for config in shown["configs"]:
            if "documentation" in config:
                config["documentation"] = config["documentation"] is not None
        shown["configs"].sort(key=lambda config: str(config["name"]))
        t.rec(label, shown)
        if label == "before":
            group_settings.use(t, consumer_session_timeout_ms=7000)


@AREA.scenario
def keys(t: Stage) -> None:
    """What does DescribeConfigs return for known, unknown, no, and broker config names?"""
    group_settings.look(t, "known", SESSION, HEARTBEAT)
    group_settings.look(t, "unknown", "consumer.no.such")
    group_settings.look(t, "of a broker", "group.consumer.session.timeout.ms")
    group_settings.look(t, "twice", SESSION, SESSION)
    resource = {"resource_type": GROUP, "resource_name": t.g, "configuration_keys": []}
    answer = t.raw("DescribeConfigs", 4, {"resources": [resource]})["results"][0]
    t.rec("none", [error(answer["error_code"]), len(answer["configs"])])


@AREA.scenario
def two_groups_in_one_request(t: Stage) -> None:
    """One request changes two groups, one of them with an invalid value."""
    other = t.group("other")
    configs = [{"name": SESSION, "config_operation": SET, "value": "7000"}]
    wrong = [{"name": SESSION, "config_operation": SET, "value": "1"}]
    resources = [
        {"resource_type": GROUP, "resource_name": t.g, "configs": configs},
        {"resource_type": GROUP, "resource_name": other, "configs": wrong},
    ]
    answer = t.raw("IncrementalAlterConfigs", 1, {"resources": resources, "validate_only": False})
    responses = sorted(answer["responses"], key=lambda one: str(one["resource_name"]))
    t.rec("errors", [error(one["error_code"]) for one in responses])
    t.nap(0.15)
    group_settings.look(t, "of the one")
    group_settings.look(t, "of the other", group=other)


@AREA.scenario
def same_group_twice_in_one_request(t: Stage) -> None:
    """One request names the same group twice."""
    configs = [{"name": SESSION, "config_operation": SET, "value": "7000"}]
    resource = {"resource_type": GROUP, "resource_name": t.g, "configs": configs}
    body = {"resources": [resource, resource], "validate_only": False}
    answer = t.raw("IncrementalAlterConfigs", 1, body)
    t.rec("errors", [error(one["error_code"]) for one in answer["responses"]])
    t.nap(0.15)
    group_settings.look(t, "shown")


@AREA.scenario
def old_alter_configs(t: Stage) -> None:
    """What does AlterConfigs, which replaces all configs, return for a group?"""
    group_settings.use(t, consumer_heartbeat_interval_ms=200)
    configs: list[dict[str, Any]] = [{"name": SESSION, "value": "7000"}]
    resource = {"resource_type": GROUP, "resource_name": t.g, "configs": configs}
    answer = t.raw("AlterConfigs", 2, {"resources": [resource], "validate_only": False})
    t.rec("error", error(answer["responses"][0]["error_code"]))
    t.nap(0.15)
    group_settings.look(t, "shown")


@AREA.scenario
def heartbeat_interval_is_answered(t: Stage) -> None:
    """Answers have the group's heartbeat interval, even after it changes."""
    a = ConsumerMember(t, "A")
    t.rec("at first", silently(t, a.join)["heartbeat_interval_ms"])
    group_settings.use(t, consumer_heartbeat_interval_ms=200)
    t.rec("changed", silently(t, a.beat)["heartbeat_interval_ms"])
    group_settings.alter(t, "deletes it", (HEARTBEAT, DELETE, None))
    group_settings.wait_until(t, {HEARTBEAT: "500"})
    t.rec("as at first", silently(t, a.beat)["heartbeat_interval_ms"])
    look(t)


@AREA.scenario
def settings_outlive_the_group(t: Stage) -> None:
    """The configs remain when the group is deleted and recreated."""
    group_settings.use(t, consumer_heartbeat_interval_ms=200)
    a = ConsumerMember(t, "A")
    silently(t, a.join)
    a.leave()
    t.delete_groups()
    group_settings.look(t, "shown")
    t.rec("interval", silently(t, a.join)["heartbeat_interval_ms"])


@AREA.each(version=[0, 1])
def groups_with_settings_are_listed(t: Stage, version: int) -> None:
    """Does ListConfigResources {version} list the groups that have configs?"""
    group_settings.use(t, consumer_heartbeat_interval_ms=200)
    ConsumerMember(t, "A", group=t.group("without")).join()
    body = {"resource_types": [GROUP]} if version >= 1 else {}
    answer = t.raw("ListConfigResources", version, body)
    found = [
        [t.sub(one["resource_name"]), one.get("resource_type")]
        for one in answer["config_resources"]
        if one["resource_name"].startswith(t.g)
    ]
    t.rec("listed", [error(answer["error_code"]), found])
