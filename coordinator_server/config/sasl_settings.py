"""SASL settings: mechanisms, their options, sessions. Part of the table of settings."""

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
