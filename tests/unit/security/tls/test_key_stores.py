"""Key stores and trust stores of every type, and the errors for invalid stores."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
)

from coordinator_server.config.config import Config, ConfigError
from coordinator_server.security.tls.key_stores import files, key_entry, trusted_certificates
from tests.certificates import Authority, Identity, jks, jks_trusted

SECRET, OTHER = "correct horse", "battery staple"
AUTHORITY = Authority()
BROKER = AUTHORITY.issue("broker")


def read_key(settings: dict[str, str]) -> list[str]:
    """Return the subjects of the chain in a key store."""
    config = Config(overrides={f"ssl.{name}": value for name, value in settings.items()})
    entry = key_entry(config)
    assert isinstance(entry.key, EllipticCurvePrivateKey)
    assert isinstance(BROKER.key, EllipticCurvePrivateKey)
    assert entry.key.private_numbers() == BROKER.key.private_numbers()
    return [one.subject.rfc4514_string() for one in entry.chain]


def refusal(settings: dict[str, str], *, of_trust: bool = False) -> str:
    """Return the error for stores, and check that it has no password."""
    config = Config(overrides={f"ssl.{name}": value for name, value in settings.items()})
    with pytest.raises(ConfigError) as caught:
        trusted_certificates(config) if of_trust else key_entry(config)
    assert SECRET not in str(caught.value)
    assert OTHER not in str(caught.value)
    return str(caught.value)


CHAIN = ["CN=broker,O=Tests", "CN=CA,O=Tests"]


def test_a_pem_file(tmp_path: Path) -> None:
    """A PEM file may have key and certificates with other text around them."""
    path = BROKER.write(tmp_path / "broker.pem")
    path.write_text("Bag Attributes: none\n" + path.read_text() + "the end")
    assert read_key({"keystore.type": "PEM", "keystore.location": str(path)}) == CHAIN


def test_an_encrypted_pem_file(tmp_path: Path) -> None:
    """An encrypted PEM file is opened with the key's password."""
    path = str(BROKER.write(tmp_path / "broker.pem", SECRET))
    settings = {"keystore.type": "PEM", "keystore.location": path}
    assert read_key(settings | {"key.password": SECRET}) == CHAIN
    assert refusal(settings) == (
        f"ssl.keystore.location: {path}: the private key is encrypted, ssl.key.password is not set"
    )
    assert refusal(settings | {"key.password": OTHER}) == (
        f"ssl.keystore.location: {path}: the private key cannot be read, "
        "or ssl.key.password is wrong"
    )


def test_pem_text() -> None:
    """PEM text in settings may be on one line, as in environment variables."""
    settings = {
        "keystore.type": "PEM",
        "keystore.key": BROKER.key_pem().decode().replace("\n", " "),
        "keystore.certificate.chain": BROKER.chain_pem().decode(),
    }
    assert read_key(settings) == CHAIN


def test_pkcs12_and_jks(tmp_path: Path) -> None:
    """The file itself determines whether it is PKCS12 or JKS, as in Java."""
    for name, write in (("p12", Identity.write_pkcs12), ("jks", Identity.write_jks)):
        path = str(write(BROKER, tmp_path / name, SECRET))
        for store_type in ("JKS", "PKCS12", "pkcs12"):
            settings = {"keystore.type": store_type, "keystore.location": path}
            assert read_key(settings | {"keystore.password": SECRET}) == CHAIN
            said = refusal(settings | {"keystore.password": OTHER})
            assert said.startswith(f"ssl.keystore.location: {path}: ")
            assert said.endswith("or ssl.keystore.password is wrong")


def test_a_file_of_another_type_than_the_settings_say(tmp_path: Path) -> None:
    """If the file has another type than the setting says, the error names the type of the file."""
    path = str(BROKER.write(tmp_path / "pem"))
    for of_trust, stem in ((False, "keystore"), (True, "truststore")):
        for store_type in ("JKS", "PKCS12"):
            assert refusal(
                {f"{stem}.type": store_type, f"{stem}.location": path}, of_trust=of_trust
            ) == (
                f"ssl.{stem}.type: {path}: the file is PEM, the type is {store_type}; "
                f"ssl.{stem}.type=PEM"
            )
    for store_type, write in (("PKCS12", Identity.write_pkcs12), ("JKS", Identity.write_jks)):
        store = str(write(BROKER, tmp_path / "store", SECRET))
        said = refusal({"keystore.type": "PEM", "keystore.location": store})
        assert said.endswith(f"looks like {store_type}; ssl.keystore.type={store_type}")


def test_a_key_with_another_password_than_its_store(tmp_path: Path) -> None:
    """A key may have its own password in JKS, but not in PKCS12."""
    path = str(BROKER.write_jks(tmp_path / "jks", SECRET, OTHER))
    settings = {"keystore.location": path, "keystore.password": SECRET}
    assert read_key(settings | {"key.password": OTHER}) == CHAIN
    assert "does not open the key k" in refusal(settings)
    path = str(BROKER.write_pkcs12(tmp_path / "p12", SECRET))
    settings = {"keystore.location": path, "keystore.password": SECRET, "key.password": OTHER}
    assert "a PKCS12 store has one for both" in refusal(settings)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, "ssl.keystore.location: a listener that uses TLS needs a key store"),
        ({"keystore.location": "/no/such"}, "ssl.keystore.password: /no/such: the key store needs"),
        (
            {"keystore.location": "/no/such", "keystore.password": SECRET},
            "ssl.keystore.location: /no/such: No such file",
        ),
        (
            {"keystore.type": "PEM", "keystore.location": "/x", "keystore.password": SECRET},
            "ssl.keystore.password: /x: a PEM file has no password",
        ),
        ({"keystore.type": "BCFKS"}, "ssl.keystore.type: 'BCFKS': only JKS, PKCS12 and PEM"),
        ({"keystore.type": "pem"}, "ssl.keystore.type: 'pem': only JKS, PKCS12 and PEM"),
        ({"keystore.key": "x"}, "ssl.keystore.certificate.chain: the key and its certificates"),
        ({"keystore.certificate.chain": "x"}, "ssl.keystore.key: the key and its certificates"),
        (
            {"keystore.key": "x", "keystore.certificate.chain": "x"},
            "ssl.keystore.type: a key as text has to be PEM",
        ),
        (
            {
                "keystore.type": "PEM",
                "keystore.key": "x",
                "keystore.certificate.chain": "x",
                "keystore.location": "/x",
            },
            "ssl.keystore.location: /x: the key is given as text already",
        ),
    ],
)
def test_settings_that_do_not_go_together(settings: dict[str, str], expected: str) -> None:
    """Contradictory settings are refused as in Kafka; the error begins with the setting."""
    assert refusal(settings).startswith(expected)


def pem(*parts: bytes) -> dict[str, str]:
    """Return a key store as text, key first."""
    return {
        "keystore.type": "PEM",
        "keystore.key": parts[0].decode(),
        "keystore.certificate.chain": b"".join(parts[1:]).decode(),
    }


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (pem(b"x", BROKER.chain_pem()), "ssl.keystore.key: one private key is needed, there are 0"),
        (pem(BROKER.key_pem(), b"x"), "ssl.keystore.certificate.chain: there is no certificate"),
        (
            pem(BROKER.key_pem(), AUTHORITY.pem()),
            "ssl.keystore.certificate.chain: the first certificate is not that of the private key",
        ),
        (
            pem(BROKER.key_pem(), BROKER.chain_pem()) | {"key.password": SECRET},
            "ssl.keystore.key: ssl.key.password is set, but the private key is not encrypted",
        ),
        (
            pem(
                BROKER.key.private_bytes(
                    Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()
                ),
                BROKER.chain_pem(),
            ),
            "ssl.keystore.key: the key has to be PKCS#8 (openssl pkcs8 -topk8 makes it), not EC",
        ),
        (
            pem(BROKER.key_pem(), b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----"),
            "ssl.keystore.certificate.chain: a certificate in it cannot be read",
        ),
        (
            pem(BROKER.key_pem(), b"-----BEGIN CERTIFICATE-----\nAAAAA\n-----END CERTIFICATE-----"),
            "ssl.keystore.certificate.chain: the PEM text is damaged",
        ),
        (
            pem(
                b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----", BROKER.chain_pem()
            ),
            "ssl.keystore.key: the private key cannot be read",
        ),
    ],
)
def test_pem_text_that_cannot_be_used(settings: dict[str, str], expected: str) -> None:
    """Invalid PEM text is refused with the reason."""
    assert refusal(settings).startswith(expected)


def test_pem_entries() -> None:
    """PEM entries may have old headers or be on one line; an entry without its end is skipped."""
    body = "".join(BROKER.chain_pem().decode().split("-----")[2].split())
    begin, end = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
    for text in (
        f"{begin}\r\nProc-Type: 4,ENCRYPTED\r\nDEK-Info: a,b\r\n\r\n{body}\r\n{end}",
        f"{begin} {body} {end} a: b\n",
        f"{begin}\nAAAA\n{begin}\n{body}\n{end}\n",
        f"-----BEGIN PRIVATE KEY-----\nAAAA\n{end}\n-BEGIN CERTIFICATE-\t{body}-END CERTIFICATE-",
    ):
        config = Config(
            overrides={"ssl.truststore.type": "PEM", "ssl.truststore.certificates": text}
        )
        assert trusted_certificates(config) == [base64.b64decode(body)], text


@pytest.mark.parametrize(
    "piece",
    ["-", "a: b\r\n", " ", "-----BEGIN CERTIFICATE----- ", "-BEGIN CERTIFICATE- A", "a:-BEGIN "],
)
def test_long_pem_texts(piece: str) -> None:
    """Long PEM texts are refused quickly, as they are read once."""
    begin = "-----BEGIN CERTIFICATE-----\n"
    text = begin + piece * (200_000 // len(piece)) + "!"
    began = time.process_time()
    reason = refusal({"truststore.type": "PEM", "truststore.certificates": text}, of_trust=True)
    assert reason == "ssl.truststore.certificates: there is no certificate in PEM"
    assert time.process_time() - began < 0.5


def test_trust_stores(tmp_path: Path) -> None:
    """Trust stores may be PEM files or text, or JKS with or without a password, or absent."""
    trusted = [AUTHORITY.certificate.public_bytes(Encoding.DER)]
    path = str(AUTHORITY.write(tmp_path / "ca.pem"))
    store = tmp_path / "ca.jks"
    store.write_bytes(jks([jks_trusted(AUTHORITY.certificate)], SECRET))
    for settings in (
        {"truststore.type": "PEM", "truststore.location": path},
        {"truststore.type": "PEM", "truststore.certificates": AUTHORITY.pem().decode()},
        {"truststore.location": str(store)},
        {"truststore.location": str(store), "truststore.password": SECRET},
    ):
        config = Config(overrides={f"ssl.{name}": value for name, value in settings.items()})
        assert trusted_certificates(config) == trusted
        assert files(config) == ((settings["truststore.location"],) if len(files(config)) else ())
    assert trusted_certificates(Config()) is None


def test_of_a_key_its_own_certificate_is_trusted(tmp_path: Path) -> None:
    """If a trust store has a key, only the first certificate of its chain is trusted.

    Java does the same.
    """
    for name, write in (("p12", Identity.write_pkcs12), ("jks", Identity.write_jks)):
        path = write(BROKER, tmp_path / name, SECRET)
        settings = {"ssl.truststore.location": str(path), "ssl.truststore.password": SECRET}
        trusted = trusted_certificates(Config(overrides=settings))
        assert trusted == [BROKER.certificate.public_bytes(Encoding.DER)]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"truststore.certificates": "x"}, "ssl.truststore.type: certificates as text have to be"),
        (
            {"truststore.type": "PEM", "truststore.certificates": "x", "truststore.location": "/x"},
            "ssl.truststore.location: /x: the certificates are given as text already",
        ),
        (
            {"truststore.type": "PEM", "truststore.location": "/x", "truststore.password": SECRET},
            "ssl.truststore.password: /x: a PEM file has no password",
        ),
        ({"truststore.password": SECRET}, "ssl.truststore.location: there is a password"),
    ],
)
def test_trust_stores_that_cannot_be_used(settings: dict[str, str], expected: str) -> None:
    """Contradictory trust store settings are refused as in Kafka.

    The error begins with the setting.
    """
    assert refusal(settings, of_trust=True).startswith(expected)


def _cut(data: bytes) -> bytes:
    return data[: len(data) // 2]


def _other_version(data: bytes) -> bytes:
    return data[:7] + b"\x09" + data[8:]


@pytest.mark.parametrize("damage", [_cut, _other_version])
def test_a_damaged_store_without_a_password(
    tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    """A damaged JKS without a password is refused if it is unreadable or trusts nothing.

    Its integrity cannot be verified.
    """
    path = tmp_path / "store"
    whole = jks([jks_trusted(AUTHORITY.certificate)], SECRET)
    path.write_bytes(damage(whole))
    settings = {"truststore.location": str(path)}
    assert refusal(settings, of_trust=True).startswith(f"ssl.truststore.location: {path}: ")
    path.write_bytes(jks([], SECRET))
    assert "no trusted certificate" in refusal(settings, of_trust=True)
    path.write_bytes(whole)
    key_settings = {"keystore.location": str(path), "keystore.password": SECRET}
    assert "no private key" in refusal(key_settings)
