"""Fault rules: which rules are refused, and the errors that Kafka can return."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from typing import Any

import pytest

from coordinator_server.control.schema import fields_of, shape_named
from coordinator_server.faults.faults import MOST_RULES, Faults
from coordinator_server.faults.possible_errors import possible_errors
from coordinator_server.faults.rule import FIELDS, FaultError
from protocol.errors import ErrorCode
from protocol.registry import SPEC_BY_NAME
from tests.harness.clock import ManualClock
from tests.support import ROOT

MATRIX = ROOT / "tests/conformance/access/kafka.json.gz"


@pytest.mark.parametrize(
    ("document", "text"),
    [
        (
            {},
            "a fault rule needs an action: error, delay_ms, late_ms, throttle_ms, drop",
        ),
        ({"error": "NOT_COORDINATR"}, "'NOT_COORDINATR': Kafka has no such error code, did you"),
        ({"error": 9999}, "error=9999: Kafka has no such error code"),
        ({"error": True}, "error=True: Kafka has no such error code"),
        ({"error": "NONE"}, "error=NONE is not an error"),
        (
            {"api": "Hearbeat", "drop": "before"},
            "there is no API 'Hearbeat', did you mean Heartbeat?",
        ),
        ({"api": "JoinGroup,", "drop": "before"}, "there is no API ''"),
        ({"api": 7, "drop": "before"}, "there is no API '7'"),
        ({"api": ["Fetch"], "drop": "before"}, "there is no API \"['Fetch']\""),
        ({"api": "SaslHandshake", "drop": "before"}, "clients log in before rules apply"),
        ({"topik": "t", "drop": "before"}, "no field 'topik': did you mean topic?"),
        ({"zzzz": "t", "drop": "before"}, "no field 'zzzz': a rule has api, version"),
        ({"drop": "later"}, "drop='later' is neither before nor after"),
        ({"cut": 1}, "cut=1 is neither true nor false"),
        ({"cut": False}, "a fault rule needs an action"),
        ({"delay_ms": -1}, "delay_ms=-1 is not a whole number from 0 on"),
        ({"delay_ms": 1.5}, "delay_ms=1.5 is not a whole number from 0 on"),
        ({"delay_ms": True}, "delay_ms=True is not a whole number from 0 on"),
        ({"delay_ms": 86_400_001}, "delay_ms=86400001 is more than a day"),
        ({"delay_ms": 1, "times": 0}, "times=0: the rule would never take effect"),
        ({"delay_ms": 1, "for_ms": 0}, "for_ms=0: the rule would never take effect"),
        ({"delay_ms": 1, "probability": 1.1}, "probability=1.1 is not a number above 0, at most 1"),
        ({"delay_ms": 1, "probability": 0}, "probability=0 is not a number above 0, at most 1"),
        ({"delay_ms": 1, "probability": float("nan")}, "probability=nan is not a number above 0"),
        ({"delay_ms": 1, "group": ""}, "group='' is not a text"),
        ({"delay_ms": 1, "group": 7}, "group='7' is not a text"),
        ({"delay_ms": 1, "version": "x"}, "version='x' is neither a version nor a range"),
        ({"delay_ms": 1, "version": "1-"}, "version='1-' is neither a version nor a range"),
        ({"delay_ms": 1, "version": "9" * 5000}, "is neither a version nor a range"),
        ({"delay_ms": 1, "version": -1}, "version='-1' is neither a version nor a range"),
        ({"delay_ms": 1, "version": "5-3"}, "version=5-3 has no version, because 3 is less than 5"),
        ({"delay_ms": 1, "version": 999}, "version=999: no API has such a version"),
        ({"delay_ms": 1, "topic": "a*" * 200}, "topic has 400 characters, the limit is 250"),
        ({"drop": "after", "force": True}, "force has no effect without error"),
        ({"error": 16, "message": "m" * 1001}, "message has 1001 characters, the limit is 1000"),
        ({"delay_ms": 1, "topic": "t", "partition": 2**40}, "partition=1099511627776 is more than"),
        (
            {"api": "Heartbeat", "version": "5-9", "drop": "before"},
            "version=5-9: Heartbeat is served at 0-4",
        ),
        ({"drop": "before", "message": "no"}, "message has no effect without error"),
        ({"drop": "before", "jitter_ms": 5}, "jitter_ms has no effect without delay_ms or late_ms"),
        ({"drop": "before", "partition": 0}, "partition=0 has no effect without topic"),
        ({"corrupt": True}, "corrupt: true needs api: Fetch"),
        ({"api": "Produce", "corrupt": True}, "corrupt: true needs api: Fetch"),
        (
            {"api": "Fetch", "corrupt": True, "error": "CORRUPT_MESSAGE"},
            "a Fetch rule with topic, or with corrupt, has one action",
        ),
        (
            {"api": "Fetch", "topic": "t", "delay_ms": 5},
            "a Fetch rule with topic, or with corrupt, has one action",
        ),
        (
            {"api": "Heartbeat", "topic": "t", "drop": "before"},
            "Heartbeat requests have no topic; they have: group, member",
        ),
        (
            {"api": "ApiVersions", "group": "g", "drop": "before"},
            "ApiVersions requests have no group; they have: none of these",
        ),
        (
            {"api": "Heartbeat", "error": "TOPIC_ALREADY_EXISTS"},
            "Kafka never returns TOPIC_ALREADY_EXISTS for Heartbeat, but: COORDINATOR_LOAD_IN",
        ),
    ],
)
def test_an_impossible_rule_is_refused_with_what_is_possible(
    document: dict[str, Any], text: str
) -> None:
    """The error names the field and its value, and the rule is not added."""
    faults = Faults(ManualClock())
    with pytest.raises(FaultError) as error:
        faults.add(document)
    assert text in str(error.value)
    assert not faults


def test_a_forced_rule_may_have_any_error_code() -> None:
    """With `force`, an error code that the API never returns is allowed."""
    rule = Faults(ManualClock()).add(
        {"api": "Heartbeat", "error": "TOPIC_ALREADY_EXISTS", "force": True}
    )
    assert rule.error is ErrorCode.TOPIC_ALREADY_EXISTS


def test_the_number_of_rules_is_limited() -> None:
    """The rule after MOST_RULES rules is refused."""
    faults = Faults(ManualClock())
    for _ in range(MOST_RULES):
        faults.add({"drop": "before"})
    with pytest.raises(FaultError, match="there are 100 rules already"):
        faults.add({"drop": "before"})


def test_every_api_has_a_row_of_error_codes_that_exist() -> None:
    """The table of possible errors has all APIs, and only names of Kafka's error codes."""
    for api in SPEC_BY_NAME:
        assert set(possible_errors(api)) <= set(ErrorCode.__members__), api


def test_the_errors_recorded_from_kafka_are_possible() -> None:
    """The table of possible errors has every error in the recorded authorization matrix."""
    matrix = json.loads(gzip.decompress(MATRIX.read_bytes()))
    for case, by_version in matrix["cells"].items():
        answers = {cell for by_user in by_version.values() for cell in by_user.values()}
        codes = {code for answer in answers for code in _error_codes(matrix["answers"][answer])}
        api = case.partition(".")[0]
        assert {ErrorCode(code).name for code in codes - {0}} <= set(possible_errors(api)), case


def _error_codes(value: object) -> Iterator[int]:
    """Yield all error codes in a recorded response."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if name.lower().endswith("errorcode") and isinstance(inner, int):
                yield inner
            yield from _error_codes(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _error_codes(inner)


def test_every_field_of_a_rule_is_in_the_control_api() -> None:
    """The shape of the control API has the same fields, and a meaning for each of them."""
    fields = fields_of(shape_named("faults:FaultRule"))
    assert fields.keys() == FIELDS.keys()
    assert all(meaning for _, meaning, _ in fields.values())
