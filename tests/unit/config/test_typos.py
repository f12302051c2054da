"""Typos in per-listener settings: reported with the intended name, refused by --strict."""

from __future__ import annotations

import pytest

from coordinator_server.config.config import Config, ConfigError


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("sasl_ssl.ssl.keystore.pasword", "sasl_ssl.ssl.keystore.password"),
        ("sasl_ssl.sasl.jaas.confg", "sasl_ssl.sasl.jaas.config"),
        ("sasl_ssl.plain.sasl.jaas.confg", "sasl_ssl.plain.sasl.jaas.config"),
        ("SSL.SSL.Client.Auth", "SSL.ssl.client.auth"),
    ],
)
def test_a_typo_in_a_listeners_setting(name: str, meant: str) -> None:
    """A typo in a listener's setting is reported with the corrected full name."""
    given = {f"listener.name.{name}": "x"}
    config = Config(file=given)
    assert config.unknown == {f"listener.name.{name}": f"listener.name.{meant}"}
    assert config.ignored == []
    with pytest.raises(ConfigError, match=f"did you mean listener.name.{meant}"):
        Config(file=given, strict=True)


@pytest.mark.parametrize(
    "name", ["a.b", "a", "a.ssl.engine.factory.class", "a.num.partitions", "a.plain.whatever.else"]
)
def test_what_is_no_typo(name: str) -> None:
    """Kafka's other settings and those of plugins are accepted per listener, without effect."""
    config = Config(file={f"listener.name.{name}": "x"}, strict=True)
    assert config.ignored == [f"listener.name.{name}"]
    assert config.unknown == {}
