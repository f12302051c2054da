"""TLS settings, which can be overridden per listener, as listener.name.NAME.SETTING.

Names and defaults are Kafka's (SslConfigs, BrokerSecurityConfigs); `ssl.handshake.timeout.ms` is
ours.
"""

from __future__ import annotations

from storage.config_def import INT_MAX, Kind, Setting

_CONTEXTS = ("TLS", "TLSv1.1", "TLSv1.2", "TLSv1.3")
_PRINCIPAL_BUILDER = "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"


def _string(name: str, default: str | None, meaning: str, choices: tuple[str, ...] = ()) -> Setting:
    return Setting(name, Kind.STRING, default, meaning, choices=choices)


def _password(name: str, meaning: str) -> Setting:
    return Setting(name, Kind.PASSWORD, None, meaning)


# fmt: off
TLS_SETTINGS = (
    _string("ssl.keystore.type", "JKS",
            "Type of the key store: JKS, PKCS12 or PEM. The first two are told apart by the file "
            "itself, as in Java."),
    _string("ssl.keystore.location", None,
            "File with the broker's private key and its certificates, the broker's own first."),
    _password("ssl.keystore.password", "Password of a JKS or PKCS12 key store."),
    _password("ssl.key.password",
              "Password of the private key: of an encrypted PEM key, or of a key in a JKS store "
              "that has another one than the store."),
    _password("ssl.keystore.key",
              "Private key as PEM text (PKCS#8) instead of a file, if the type is PEM."),
    _password("ssl.keystore.certificate.chain",
              "Certificates of the broker as PEM text instead of a file, its own first."),
    _string("ssl.truststore.type", "JKS", "Type of the trust store: JKS, PKCS12 or PEM."),
    _string("ssl.truststore.location", None,
            "File with the certificates that client certificates may be signed by; without one "
            "those of the system."),
    _password("ssl.truststore.password",
              "Password of a JKS or PKCS12 trust store; without one JKS is read unchecked."),
    _password("ssl.truststore.certificates",
              "Trusted certificates as PEM text instead of a file, if the type is PEM."),
    _string("ssl.client.auth", "none",
            "Whether clients need a certificate. On a SASL_SSL listener only the listener's own "
            "setting counts, as in Kafka.",
            ("required", "requested", "none")),
    Setting("ssl.enabled.protocols", Kind.LIST, ("TLSv1.2", "TLSv1.3"),
            "Versions of TLS; those before TLSv1.2 may be named, but are off as in Java.",
            choices=("TLSv1.3", "TLSv1.2", "TLSv1.1", "TLSv1", "SSLv3", "SSLv2Hello"),
            may_be_empty=True),
    _string("ssl.protocol", "TLSv1.3",
            "The protocol of Java's SSLContext; ssl.enabled.protocols says what is served.",
            _CONTEXTS),
    Setting("ssl.cipher.suites", Kind.LIST, (),
            "Cipher suites by Java's names; all that OpenSSL offers if empty.", may_be_empty=True),
    _string("ssl.principal.mapping.rules", "DEFAULT",
            "How the name in a client's certificate becomes its principal: "
            "RULE:PATTERN/REPLACEMENT/ with L or U, or DEFAULT, the first that matches."),
    Setting("ssl.allow.dn.changes", Kind.BOOLEAN, False,
            "Whether a key store that changed while running may have another subject."),
    Setting("ssl.allow.san.changes", Kind.BOOLEAN, False,
            "Whether a key store that changed while running may lack names that it had."),
    Setting("ssl.handshake.timeout.ms", Kind.INT, 30000,
            "How long a TLS handshake may take (ours); Kafka waits for connections.max.idle.ms.",
            1, INT_MAX),
    Setting("principal.builder.class", Kind.CLASS, _PRINCIPAL_BUILDER,
            "How clients get their principals; only Kafka's own way is served.",
            choices=(_PRINCIPAL_BUILDER,)),
    _string("inter.broker.listener.name", None,
            "The listener between brokers in Kafka. There is no such traffic here."),
    _string("security.inter.broker.protocol", "PLAINTEXT",
            "The protocol between brokers in Kafka. There is no such traffic here.",
            ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")),
)
# fmt: on
