"""Topic configs: defaults, parsing, errors."""

from __future__ import annotations

import pytest

from storage.errors import TopicConfigError
from storage.log_config import LogConfig, field_of
from storage.topic_settings import TOPIC_SETTINGS, TOPIC_SETTINGS_WITHOUT_EFFECT


def test_defaults_agree_with_the_table() -> None:
    """Each field of LogConfig except one is named like a topic config and has its default."""
    named = {}
    for name, row in TOPIC_SETTINGS.items():
        field = field_of(name)
        if field is not None:
            named[field] = row.setting.default
    assert LogConfig()._asdict() == named | {"producer_id_expiration_ms": 86400000}


def test_what_logs_do_not_read_is_said_to_have_no_effect() -> None:
    """Each topic config is a field of LogConfig, or is listed as without an effect.

    Configs of share groups are neither.
    """
    elsewhere = {"internal.segment.bytes", "errors.deadletterqueue.group.enable"}
    for name in TOPIC_SETTINGS.keys() - elsewhere:
        assert (field_of(name) is None) == (name in TOPIC_SETTINGS_WITHOUT_EFFECT), name


def test_overrides_are_typed() -> None:
    """Values are converted to numbers, lists and booleans; unused configs are only checked."""
    config = LogConfig().overridden(
        {
            "cleanup.policy": "compact, delete",
            "retention.ms": "-1",
            "min.cleanable.dirty.ratio": "0.25",
            "preallocate": "TRUE",
            "compression.type": "zstd",
        }
    )
    assert config.compacts
    assert config.deletes
    assert config.retention_ms == -1
    assert config.min_cleanable_dirty_ratio == 0.25
    assert config.compression_type == "zstd"
    assert LogConfig().overridden({}) == LogConfig()


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("retention.ms", "x", "Invalid value x for configuration retention.ms: Not a number"),
        ("retention.ms", "-2", "Value must be at least -1"),
        ("segment.bytes", "1000", "Value must be at least 1048576"),
        ("segment.bytes", "3000000000", "Not a number of type INT"),
        ("segment.ms", str(2**63), "Not a number of type LONG"),
        ("min.cleanable.dirty.ratio", "1.5", "Value must be no more than 1"),
        ("min.cleanable.dirty.ratio", "nan", "Not a number of type DOUBLE"),
        ("compression.gzip.level", "0", "Value must be between 1 and 9 or equal to -1"),
        ("compression.lz4.level", "0", "Value must be at least 1"),
        ("segment.ms", str(-(2**64)), "Not a number of type LONG"),
        ("cleanup.policy", "shred", "String must be one of: compact, delete"),
        ("cleanup.policy", "compact,", "Configuration 'cleanup.policy' values must not be empty."),
        ("compression.type", "rar", "String must be one of: uncompressed, zstd"),
        ("preallocate", "maybe", "either true or false"),
        ("no.such", "1", "Unknown topic config name: no.such"),
    ],
)
def test_bad_values_are_refused(name: str, text: str, message: str) -> None:
    """The error for an invalid topic config has Kafka's text: setting, value and reason."""
    with pytest.raises(TopicConfigError) as caught:
        LogConfig().overridden({name: text})
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("configs", "message"),
    [
        ({"retention.bytes": "x", "nonsense": "1"}, "Unknown topic config name: nonsense"),
        ({"retention.bytes": "x", "segment.bytes": "y"}, "Invalid value y for"),
        ({"cleanup.policy": "x", "retention.ms": "y"}, "Invalid value y for"),
        ({"compression.type": "x", "min.insync.replicas": "0"}, "Value must be at least 1"),
    ],
)
def test_of_several_errors_kafkas_first_is_named(configs: dict[str, str], message: str) -> None:
    """The first of several errors in Kafka's order is raised: names before values."""
    with pytest.raises(TopicConfigError) as caught:
        LogConfig().overridden(configs)
    assert message in str(caught.value)


def test_lags_must_not_contradict() -> None:
    """min.compaction.lag.ms above max.compaction.lag.ms is refused."""
    with pytest.raises(TopicConfigError):
        LogConfig().overridden({"min.compaction.lag.ms": "9", "max.compaction.lag.ms": "8"})
