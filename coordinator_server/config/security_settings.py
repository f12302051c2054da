"""SASL and TLS settings. Part of the table of settings.

Names and defaults are Kafka's (SaslConfigs, SslConfigs, BrokerSecurityConfigs);
`ssl.handshake.timeout.ms` does not exist in Kafka. TLS settings can be overridden per listener, as
listener.name.NAME.SETTING.
"""

from __future__ import annotations

from storage.config_def import INT_MAX, LONG_MAX, Kind, Setting

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
"""The supported SASL mechanisms."""

MAX_REAUTH_SETTING = "connections.max.reauth.ms"

# Formatting is off, so that each row of this table takes one or two lines.
# fmt: off
SASL_SETTINGS = (
    Setting("sasl.enabled.mechanisms", Kind.LIST, ("GSSAPI",),
            f"SASL mechanisms of the listeners: {', '.join(MECHANISMS)}. GSSAPI is not supported."),
    Setting("sasl.jaas.config", Kind.PASSWORD, None,
            "Login modules and their options; usually set as "
            "listener.name.NAME.MECHANISM.sasl.jaas.config. See sasl.md."),
    Setting("scram.users", Kind.PASSWORD, None,
            "Users (ours) that are added at the start if they do not exist: "
            "SCRAM-SHA-256=[name=NAME,password=PASSWORD], separated by semicolons."),
    Setting("delegation.token.secret.key", Kind.PASSWORD, None,
            "Secret key for creating and verifying delegation tokens; without a key, delegation "
            "tokens are disabled."),
    Setting("delegation.token.max.lifetime.ms", Kind.LONG, 604800000,
            "Maximum lifetime of a delegation token, including renewals.",
            1, LONG_MAX),
    Setting("delegation.token.expiry.time.ms", Kind.LONG, 86400000,
            "Time until a delegation token expires if it is not renewed.", 1, LONG_MAX),
    Setting("delegation.token.expiry.check.interval.ms", Kind.LONG, 3600000,
            "Interval at which expired delegation tokens are removed.", 1, LONG_MAX),
    Setting("sasl.server.max.receive.size", Kind.INT, 524288,
            "Maximum size in bytes of a frame during authentication."),
    Setting("sasl.server.callback.handler.class", Kind.STRING, None,
            "Kafka's class that checks OAUTHBEARER tokens, see sasl.md."),
    Setting(MAX_REAUTH_SETTING, Kind.LONG, 0,
            "Time after which a client must authenticate again; 0 means never (KIP-368)."),
    Setting("connection.failed.authentication.delay.ms", Kind.INT, 100,
            "Delay of the response after a failed authentication.",
            0, INT_MAX),
    Setting("sasl.oauthbearer.jwks.endpoint.url", Kind.STRING, None,
            "URL of the keys that verify tokens: file:, http: or https:."),
    Setting("sasl.oauthbearer.jwks.endpoint.refresh.ms", Kind.LONG, 3600000,
            "Interval at which the keys are fetched again."),
    Setting("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", Kind.LONG, 100,
            "Pause after the first failed attempt to fetch the keys; it doubles after each "
            "further failure."),
    Setting("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", Kind.LONG, 10000,
            "Longest pause between attempts to fetch the keys."),
    Setting("sasl.oauthbearer.expected.audience", Kind.LIST, (),
            "Accepted audiences; a token must have one of them.", may_be_empty=True),
    Setting("sasl.oauthbearer.expected.issuer", Kind.STRING, None,
            "Required issuer of a token."),
    Setting("sasl.oauthbearer.allow.unverified.audience", Kind.BOOLEAN, False,
            "Whether signed tokens with any audience are accepted; otherwise an expected audience "
            "must be set."),
    Setting("sasl.oauthbearer.allow.unverified.issuer", Kind.BOOLEAN, False,
            "Whether signed tokens of any issuer are accepted; otherwise an expected issuer must "
            "be set."),
    Setting("sasl.oauthbearer.scope.claim.name", Kind.STRING, "scope",
            "Name of the claim with the scope."),
    Setting("sasl.oauthbearer.sub.claim.name", Kind.STRING, "sub",
            "Name of the claim with the user name."),
    Setting("sasl.oauthbearer.clock.skew.seconds", Kind.INT, 30,
            "Tolerated difference between the clocks of issuer and broker."),
)
# fmt: on


_CONTEXTS = ("TLS", "TLSv1.1", "TLSv1.2", "TLSv1.3")
_PRINCIPAL_BUILDER = "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"


def _string(name: str, default: str | None, meaning: str, choices: tuple[str, ...] = ()) -> Setting:
    return Setting(name, Kind.STRING, default, meaning, choices=choices)


def _password(name: str, meaning: str) -> Setting:
    return Setting(name, Kind.PASSWORD, None, meaning)


# fmt: off
TLS_SETTINGS = (
    _string("ssl.keystore.type", "JKS",
            "Type of the key store: JKS, PKCS12 or PEM. As in Java, JKS and PKCS12 are detected "
            "from the file."),
    _string("ssl.keystore.location", None,
            "File with the broker's private key and certificate chain; the broker's certificate "
            "comes first."),
    _password("ssl.keystore.password", "Password of a JKS or PKCS12 key store."),
    _password("ssl.key.password",
              "Password of the private key: of an encrypted PEM key, or of a JKS key whose "
              "password differs from the store's."),
    _password("ssl.keystore.key",
              "Private key as PEM text (PKCS#8) instead of a file, if the type is PEM."),
    _password("ssl.keystore.certificate.chain",
              "Certificate chain of the broker as PEM text instead of a file; the broker's "
              "certificate comes first."),
    _string("ssl.truststore.type", "JKS", "Type of the trust store: JKS, PKCS12 or PEM."),
    _string("ssl.truststore.location", None,
            "File with the trusted CA certificates for client certificates; the default is the "
            "system's certificates."),
    _password("ssl.truststore.password",
              "Password of a JKS or PKCS12 trust store; without a password, the integrity of a "
              "JKS file is not checked."),
    _password("ssl.truststore.certificates",
              "Trusted certificates as PEM text instead of a file, if the type is PEM."),
    _string("ssl.client.auth", "none",
            "Whether clients need a certificate. As in Kafka, a SASL_SSL listener uses only its "
            "own setting (`listener.name.NAME.ssl.client.auth`).",
            ("required", "requested", "none")),
    Setting("ssl.enabled.protocols", Kind.LIST, ("TLSv1.2", "TLSv1.3"),
            "Enabled TLS versions. Versions before TLSv1.2 are accepted but disabled, as in Java.",
            choices=("TLSv1.3", "TLSv1.2", "TLSv1.1", "TLSv1", "SSLv3", "SSLv2Hello"),
            may_be_empty=True),
    _string("ssl.protocol", "TLSv1.3",
            "The protocol of Java's SSLContext; use ssl.enabled.protocols instead.",
            _CONTEXTS),
    Setting("ssl.cipher.suites", Kind.LIST, (),
            "Cipher suites, with Java's names; if empty, Python's default suites.",
            may_be_empty=True),
    _string("ssl.principal.mapping.rules", "DEFAULT",
            "Rules that map the subject of a client's certificate to a principal: "
            "RULE:PATTERN/REPLACEMENT/ with an optional L or U, or DEFAULT. The first matching "
            "rule applies."),
    Setting("ssl.allow.dn.changes", Kind.BOOLEAN, False,
            "Whether a reloaded key store may have another subject."),
    Setting("ssl.allow.san.changes", Kind.BOOLEAN, False,
            "Whether a reloaded key store may lack alternative names of the previous certificate."),
    Setting("ssl.handshake.timeout.ms", Kind.INT, 30000,
            "Maximum duration of a TLS handshake (ours); Kafka waits for connections.max.idle.ms.",
            1, INT_MAX),
    Setting("principal.builder.class", Kind.CLASS, _PRINCIPAL_BUILDER,
            "Class that determines the principals of clients; only Kafka's default class is "
            "supported.",
            choices=(_PRINCIPAL_BUILDER,)),
    _string("inter.broker.listener.name", None,
            "The listener for traffic between brokers; this broker has no such traffic."),
    _string("security.inter.broker.protocol", "PLAINTEXT",
            "The protocol for traffic between brokers; this broker has no such traffic.",
            ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")),
)
# fmt: on
