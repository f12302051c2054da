"""The JAAS file in KAFKA_OPTS: the listeners that get its users, and invalid files."""

from __future__ import annotations

from pathlib import Path

import pytest

from coordinator_server.config.config import Config, ConfigError
from coordinator_server.security.sasl.jaas_file import (
    JvmOptions,
    parse_jvm_options,
    settings_of_jaas_file,
)
from coordinator_server.security.sasl.plain import PLAIN_MODULE

LOGIN = "-Djava.security.auth.login.config"
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
LISTENERS = {
    "listeners": "IN://:1,OUT://:2,PLAIN://:3",
    "listener.security.protocol.map": "IN:SASL_PLAINTEXT,OUT:SASL_PLAINTEXT,PLAIN:PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
}
NAME = "listener.name.{}.plain.sasl.jaas.config"


def plain(**users: str) -> str:
    """Return the module PLAIN with these users."""
    return f"{PLAIN_MODULE} required" + "".join(f' user_{k}="{v}"' for k, v in users.items()) + ";"


def rendered(**users: str) -> str:
    """Return the module as the text of a setting."""
    return (
        f"{PLAIN_MODULE} required" + "".join(f' "user_{k}"="{v}"' for k, v in users.items()) + ";"
    )


def settings(text: str, path: Path, more: dict[str, str] | None = None) -> dict[str, str]:
    """Return the settings from a file with this text."""
    path.write_text(text)
    options = parse_jvm_options(f"-Xmx1g -Dword=secret {LOGIN}={path}")
    return settings_of_jaas_file(Config(overrides=LISTENERS | (more or {})), options)


@pytest.mark.parametrize(
    ("text", "file", "others"),
    [
        ("", None, []),
        (f"{LOGIN}=/a", "/a", []),
        (f"{LOGIN}==/a -Dp=q", "/a", ["-Dp"]),
        (f"{LOGIN}=/a {LOGIN}=file:/b", "/b", []),
        (f"-javaagent:/x.jar=1:/y {LOGIN}=/a", "/a", ["-javaagent"]),
        (f'-Dword="my secret" {LOGIN}=/a', "/a", ["-Dword"]),
    ],
)
def test_options_of_the_jvm(text: str, file: str | None, others: list[str]) -> None:
    """The last JAAS file in KAFKA_OPTS is used; of other JVM options only the names are stored."""
    options = parse_jvm_options(text)
    assert (options.jaas_file, options.others) == (file, others)


def test_listeners_get_the_users_of_their_section(tmp_path: Path) -> None:
    """NAME.KafkaServer takes precedence over KafkaServer, and the first of two modules is used.

    Other sections are ignored.
    """
    text = f"""
    Client {{}};
    KafkaServer {{ x.Other required user_b="no"; {plain(a="1")} {plain(a="2", b="${word}")} }};
    out.KafkaServer {{ {plain(c="4")} }};
    """
    path = tmp_path / "jaas"
    assert settings(text, path) == {
        NAME.format("in"): rendered(a="1", b="secret"),
        NAME.format("out"): rendered(c="4"),
    }
    own = {NAME.format("out"): plain(d="5")}
    assert settings(text, path, own) == {NAME.format("in"): rendered(a="1", b="secret")}


def test_oauthbearer_gets_its_options(tmp_path: Path) -> None:
    """OAUTHBEARER takes the options of its module, or the defaults."""
    only = {"sasl.enabled.mechanisms": "OAUTHBEARER"}
    text = f'in.KafkaServer {{ {OAUTH} required unsecuredValidatorRequiredScope="s"; }};'
    name = "listener.name.in.oauthbearer.sasl.jaas.config"
    assert settings(text, tmp_path / "jaas", only) == {
        name: f'{OAUTH} required "unsecuredValidatorRequiredScope"="s";'
    }


def test_a_file_that_nobody_needs_is_not_read() -> None:
    """The file is not read without a SASL listener, or if all listeners have their own text."""
    options = JvmOptions({"java.security.auth.login.config": "/missing"}, [])
    own = {NAME.format(name): plain(a="1") for name in ("in", "out")}
    for overrides in (
        {},
        LISTENERS | own,
        LISTENERS | {"sasl.enabled.mechanisms": "SCRAM-SHA-512"},
    ):
        assert settings_of_jaas_file(Config(overrides=overrides), options) == {}
    with pytest.raises(ConfigError, match=r"^KAFKA_OPTS: /missing: No such file or directory$"):
        settings_of_jaas_file(Config(overrides=LISTENERS), options)


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        ("", "there is no section in.KafkaServer or KafkaServer, and listener IN needs users"),
        (
            "KafkaServer { x.Y required; geheim required; };",
            f"section KafkaServer has no {PLAIN_MODULE} with an option user_NAME, only x.Y, and",
        ),
        (f"KafkaServer {{\n{plain(a='geheim')}\n}}", "line 3: ; is expected after the }"),
        ("KafkaServer {\n x required user_a=5; };", "line 2: Value not specified"),
    ],
)
def test_a_file_that_cannot_be_used(tmp_path: Path, text: str, refusal: str) -> None:
    """The error for an invalid file has KAFKA_OPTS and the file name, but none of the text."""
    with pytest.raises(ConfigError) as caught:
        settings(text, tmp_path / "jaas")
    assert str(caught.value).startswith(f"KAFKA_OPTS: {tmp_path}/jaas: {refusal}")
    assert "geheim" not in str(caught.value)


def test_a_text_for_all_listeners_counts_where_the_file_has_none(tmp_path: Path) -> None:
    """`sasl.jaas.config` without a listener is used where the file has no section."""
    assert settings("Client {};", tmp_path / "jaas", {"sasl.jaas.config": plain(a="1")}) == {}
