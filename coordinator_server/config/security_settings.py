"""SASL and TLS settings. Part of the table of settings.

Names and defaults are Kafka's (SaslConfigs, SslConfigs, BrokerSecurityConfigs);
`ssl.handshake.timeout.ms` is ours. TLS settings can be overridden per listener, as
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
            f"SASL mechanisms of the listeners: {', '.join(MECHANISMS)}. GSSAPI is not served."),
    Setting("sasl.jaas.config", Kind.PASSWORD, None,
            "Login modules with their options, see sasl.md; mostly given as "
            "listener.name.NAME.MECHANISM.sasl.jaas.config."),
    Setting("scram.users", Kind.PASSWORD, None,
            "Users (ours) that are added at the start unless they are there: "
            "SCRAM-SHA-256=[name=NAME,password=PASSWORD], several of them with ; between."),
    Setting("delegation.token.secret.key", Kind.PASSWORD, None,
            "Key that delegation tokens are made and checked with; without it there are none."),
    Setting("delegation.token.max.lifetime.ms", Kind.LONG, 604800000,
            "How long a delegation token may live at most, however often it is renewed.",
            1, LONG_MAX),
    Setting("delegation.token.expiry.time.ms", Kind.LONG, 86400000,
            "How long a delegation token lives unless it is renewed.", 1, LONG_MAX),
    Setting("delegation.token.expiry.check.interval.ms", Kind.LONG, 3600000,
            "How often delegation tokens that have expired are removed.", 1, LONG_MAX),
    Setting("sasl.server.max.receive.size", Kind.INT, 524288,
            "Largest frame in bytes while a client authenticates."),
    Setting("sasl.server.callback.handler.class", Kind.STRING, None,
            "Kafka's class that checks OAUTHBEARER tokens, see sasl.md."),
    Setting(MAX_REAUTH_SETTING, Kind.LONG, 0,
            "After how long a client has to authenticate again, 0 never (KIP-368)."),
    Setting("connection.failed.authentication.delay.ms", Kind.INT, 100,
            "How long the answer to a client that failed to authenticate is held back.",
            0, INT_MAX),
    Setting("sasl.oauthbearer.jwks.endpoint.url", Kind.STRING, None,
            "Where the keys are that tokens are signed with: a file:, http: or https: URL."),
    Setting("sasl.oauthbearer.jwks.endpoint.refresh.ms", Kind.LONG, 3600000,
            "How often the keys are fetched again."),
    Setting("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", Kind.LONG, 100,
            "Pause after the first failed attempt to fetch the keys; it doubles."),
    Setting("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", Kind.LONG, 10000,
            "Longest pause between attempts to fetch the keys."),
    Setting("sasl.oauthbearer.expected.audience", Kind.LIST, (),
            "Audiences of which a token has to have one.", may_be_empty=True),
    Setting("sasl.oauthbearer.expected.issuer", Kind.STRING, None,
            "Issuer that a token has to have."),
    Setting("sasl.oauthbearer.allow.unverified.audience", Kind.BOOLEAN, False,
            "Whether signed tokens of any audience are taken if none is expected; without it an "
            "expected audience is needed."),
    Setting("sasl.oauthbearer.allow.unverified.issuer", Kind.BOOLEAN, False,
            "Whether signed tokens of any issuer are taken if none is expected; without it an "
            "expected issuer is needed."),
    Setting("sasl.oauthbearer.scope.claim.name", Kind.STRING, "scope",
            "Claim of a token that has its scope."),
    Setting("sasl.oauthbearer.sub.claim.name", Kind.STRING, "sub",
            "Claim of a token that has the name of the user."),
    Setting("sasl.oauthbearer.clock.skew.seconds", Kind.INT, 30,
            "By how much the clock of the issuer may differ."),
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
