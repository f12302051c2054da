"""The TLS and SASL settings of a client, from Kafka's client properties.

Property names are those of Java's clients. librdkafka's spelling of a name is accepted as well,
because one file often serves both. Clients in plain text import neither TLS nor SASL.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from coordinator_server.client.errors import ClientError, UnsupportedSettingError
from coordinator_server.security.credentials.jaas import JaasError, parse_login_module
from protocol.errors import ErrorCode

SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
TLS_VERSIONS = ("TLSv1.2", "TLSv1.3")


class Secret:
    """A password, key or token whose value does not appear in its text or in tracebacks."""

    __slots__ = ("value",)

    def __init__(self, value: str) -> None:
        self.value = value

    def __repr__(self) -> str:
        return "[hidden]"


class CertificateStore(NamedTuple):
    """The source of certificates, or of a key with its certificates: files or PEM texts.

    `setting` is the property that names the source, for error messages.
    """

    setting: str
    location: str | None = None
    certificates: str | None = None
    key_location: str | None = None
    key: Secret | None = None
    password: Secret | None = None
    key_password: Secret | None = None


class TlsSettings(NamedTuple):
    """The settings `ssl.*`. Without a trust store, the system's trust store is used."""

    truststore: CertificateStore | None = None
    keystore: CertificateStore | None = None
    verifies_name: bool = True
    verifies_chain: bool = True
    versions: tuple[str, ...] = TLS_VERSIONS


class SaslSettings(NamedTuple):
    """The settings `sasl.*`: a user with a password, or a token for OAUTHBEARER."""

    mechanism: str
    username: str = ""
    password: Secret | None = None
    is_delegation_token: bool = False
    token: Secret | None = None
    token_file: str | None = None
    unsecured_claims: tuple[tuple[str, object], ...] = ()


class SecuritySettings(NamedTuple):
    """The value of `security.protocol` and the settings that it needs."""

    protocol: str
    tls: TlsSettings | None
    sasl: SaslSettings | None


def read_security(properties: Mapping[str, str]) -> SecuritySettings | None:
    """Return the security settings in the properties; None for PLAINTEXT.

    The TLS files are read now, so that errors are reported early. Raises ClientError
    (INVALID_CONFIG), UnsupportedSettingError.
    """
    given = properties.get("security.protocol", "PLAINTEXT").strip()
    protocol = given.upper()
    if protocol not in SECURITY_PROTOCOLS:
        raise invalid(f"Invalid value {given} for configuration security.protocol: "
                      "Invalid value for security.protocol. Allowed values: "
                      f"{', '.join(SECURITY_PROTOCOLS)}.")  # fmt: skip
    if protocol == "PLAINTEXT":
        return None
    tls = sasl = None
    if protocol.startswith("SASL"):
        sasl = read_sasl(properties)
    if protocol.endswith("SSL"):
        tls = read_tls(properties)
        from coordinator_server.client.tls import context_of

        context_of(tls)
    return SecuritySettings(protocol, tls, sasl)


def invalid(message: str) -> ClientError:
    """Return the error of an invalid setting."""
    return ClientError(ErrorCode.INVALID_CONFIG, message)


def read_tls(properties: Mapping[str, str]) -> TlsSettings:
    """Read the settings `ssl.*`. Raises ClientError."""
    if properties.get("ssl.cipher.suites", "").strip():
        raise UnsupportedSettingError("ssl.cipher.suites is not supported, the client's are taken")
    algorithm = _first(properties, "ssl.endpoint.identification.algorithm")
    names = [
        part.strip() for part in properties.get("ssl.enabled.protocols", "").split(",") if part
    ]
    for name in names:
        if name not in TLS_VERSIONS:
            raise UnsupportedSettingError(
                f"ssl.enabled.protocols={name} is not supported, only {', '.join(TLS_VERSIONS)}"
            )
    checked = (_first(properties, "enable.ssl.certificate.verification") or "true").lower()
    return TlsSettings(
        truststore=_truststore(properties),
        keystore=_keystore(properties),
        verifies_name=algorithm is None or algorithm.lower() not in ("", "none"),
        verifies_chain=checked != "false",
        versions=tuple(names) or TLS_VERSIONS,
    )


def read_sasl(properties: Mapping[str, str]) -> SaslSettings:
    """Read the settings `sasl.*`. Raises ClientError."""
    mechanism = _first(properties, "sasl.mechanism", "sasl.mechanisms") or "GSSAPI"
    if mechanism not in MECHANISMS:
        raise UnsupportedSettingError(
            f"sasl.mechanism={mechanism} is not supported, only {', '.join(MECHANISMS)}:"
            " use the scripts of Apache Kafka for this broker"
        )
    jaas = jaas_options(properties.get("sasl.jaas.config", ""))
    username = jaas.get("username") or _first(properties, "sasl.username") or ""
    password = _secret(jaas, "password") or _secret(properties, "sasl.password")
    settings = SaslSettings(
        mechanism,
        username,
        password,
        jaas.get("tokenauth", "").lower() == "true",
    )
    if mechanism == "OAUTHBEARER":
        return _read_token(properties, jaas, settings)
    if not username or password is None:
        raise invalid(
            f"sasl.mechanism={mechanism} needs a user: give username and password in"
            " sasl.jaas.config, or sasl.username and sasl.password"
        )
    return settings


def _read_token(
    properties: Mapping[str, str], jaas: Mapping[str, str], settings: SaslSettings
) -> SaslSettings:
    token = _first(properties, "sasl.oauthbearer.token")
    if token:
        return settings._replace(token=Secret(token))
    url = _first(properties, "sasl.oauthbearer.token.endpoint.url") or ""
    if url.startswith("file:"):
        return settings._replace(token_file=re.sub("^file:(?://[^/]*)?", "", url))
    if url:
        raise UnsupportedSettingError(
            "sasl.oauthbearer.token.endpoint.url: only file: URLs are supported; fetch the token"
            " and name its file, or give it as sasl.oauthbearer.token"
        )
    claims: list[tuple[str, object]] = []
    for name, value in jaas.items():
        kind, _, claim = name.removeprefix("unsecuredLogin").partition("Claim_")
        if kind == "String":
            claims.append((claim, value))
        elif kind == "Number" and re.fullmatch("-?[0-9]+", value):
            claims.append((claim, int(value)))
        elif kind == "List":
            claims.append((claim, value[1:].split(value[:1]) if value[1:] else []))
    if not any(claim == "sub" for claim, _ in claims):
        raise invalid(
            "sasl.mechanism=OAUTHBEARER needs a token: sasl.oauthbearer.token, a file: URL in"
            " sasl.oauthbearer.token.endpoint.url, or unsecuredLoginStringClaim_sub in"
            " sasl.jaas.config"
        )
    return settings._replace(unsecured_claims=tuple(claims))


def jaas_options(text: str) -> dict[str, str]:
    """Return the options of the login module in `sasl.jaas.config`.

    Raises ClientError. The message does not quote the text, because the text contains passwords.
    """
    if not text.strip():
        return {}
    try:
        return parse_login_module(text).options
    except JaasError as error:
        raise invalid(f"sasl.jaas.config: {error}") from None


def _truststore(properties: Mapping[str, str]) -> CertificateStore | None:
    password = _secret(properties, "ssl.truststore.password")
    for location, texts in (
        ("ssl.truststore.location", "ssl.truststore.certificates"),
        ("ssl.ca.location", "ssl.ca.pem"),
    ):
        if texts in properties:
            return CertificateStore(texts, certificates=properties[texts])
        path = _first(properties, location)
        if path and path != "probe":
            return CertificateStore(location, path, password=password)
    return None


def _keystore(properties: Mapping[str, str]) -> CertificateStore | None:
    password = _secret(properties, "ssl.keystore.password")
    key_password = _secret(properties, "ssl.key.password")
    for chain, key in (
        ("ssl.keystore.certificate.chain", "ssl.keystore.key"),
        ("ssl.certificate.pem", "ssl.key.pem"),
    ):
        if chain in properties and key in properties:
            return CertificateStore(
                chain,
                certificates=properties[chain],
                key=Secret(properties[key]),
                key_password=key_password,
            )
    for location in ("ssl.keystore.location", "ssl.certificate.location"):
        if path := _first(properties, location):
            return CertificateStore(
                location,
                path,
                key_location=_first(properties, "ssl.key.location"),
                password=password,
                key_password=key_password,
            )
    return None


def _secret(properties: Mapping[str, str], name: str) -> Secret | None:
    return Secret(properties[name]) if name in properties else None


def _first(properties: Mapping[str, str], *names: str) -> str | None:
    return next((properties[name].strip() for name in names if name in properties), None)
