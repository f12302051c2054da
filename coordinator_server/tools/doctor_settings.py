"""Client settings that no client knows: a misspelt name is silently ignored."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from coordinator_server.config.other_names import OF_KAFKA
from coordinator_server.config.settings import SETTINGS
from coordinator_server.config.typos import closest
from coordinator_server.tools.doctor_step import Step

PREFIXES = ("security.", "ssl.", "sasl.")
"""Of what decides whether a client gets in; other names are looked at if they resemble one."""

_LIBRDKAFKAS = """
enable.sasl.oauthbearer.unsecure.jwt
enable.ssl.certificate.verification
https.ca.location
https.ca.pem
sasl.kerberos.keytab
sasl.kerberos.principal
sasl.mechanisms
sasl.oauthbearer.assertion.jwt.template.file
sasl.oauthbearer.assertion.private.key.pem
sasl.oauthbearer.client.id
sasl.oauthbearer.client.secret
sasl.oauthbearer.config
sasl.oauthbearer.extensions
sasl.oauthbearer.grant.type
sasl.oauthbearer.metadata.authentication.type
sasl.oauthbearer.method
sasl.password
sasl.username
ssl.ca.certificate.stores
ssl.ca.location
ssl.ca.pem
ssl.certificate.location
ssl.certificate.pem
ssl.crl.location
ssl.curves.list
ssl.engine.id
ssl.engine.location
ssl.key.location
ssl.key.pem
ssl.providers
ssl.sigalgs.list
"""
OF_LIBRDKAFKA = frozenset(_LIBRDKAFKAS.split())
"""The names of librdkafka that Java's clients do not have."""

OURS = frozenset({"sasl.oauthbearer.token"})
"""Names that only our own tools know."""

_OF_JAVA = frozenset({"sasl.mechanism", "sasl.oauthbearer.header.urlencode", "security.protocol"})
"""Names of Java's clients that its brokers do not have; the others are settings of both."""

_OF_BOTH = frozenset(name for name in (*SETTINGS, *OF_KAFKA) if name.startswith(PREFIXES))
KNOWN = _OF_BOTH | _OF_JAVA | OF_LIBRDKAFKA | OURS


def look_at_names(names: Iterable[str], show: Callable[[Step], None]) -> None:
    """The step before the first; shown only if there is something to say."""
    step = Step("settings", 0)
    step.details += doubted(names)
    if step.details:
        step.found = "some are ignored"
        step.end()
        show(step)


def doubted(names: Iterable[str]) -> Iterator[str]:
    """A line for each name that is probably about security and that no client has: none of Java's,
    of librdkafka's or of our tools. It says what was probably meant."""
    for name in names:
        if name in KNOWN:
            continue
        similar = closest(name, KNOWN)
        if similar is not None:
            yield f"{name}: no client has such a setting, did you mean {similar}?"
        elif name.startswith(PREFIXES):
            yield f"{name}: no client has such a setting"
