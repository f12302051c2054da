"""Finds client settings that no client knows: clients silently ignore a misspelt name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from coordinator_server.config.other_names import OF_KAFKA
from coordinator_server.config.settings import SETTINGS
from coordinator_server.config.typos import closest
from coordinator_server.tools.doctor_step import Step

PREFIXES = ("security.", "ssl.", "sasl.")
"""Prefixes of security settings; other names are checked only if they resemble one of these."""

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
"""Settings of librdkafka that Java's clients do not have."""

OURS = frozenset({"sasl.oauthbearer.token"})
"""Settings that only this project's tools have."""

_OF_JAVA = frozenset({"sasl.mechanism", "sasl.oauthbearer.header.urlencode", "security.protocol"})
"""Settings of Java's clients that Java's brokers do not have; all others exist in both."""

_OF_BOTH = frozenset(name for name in (*SETTINGS, *OF_KAFKA) if name.startswith(PREFIXES))
KNOWN = _OF_BOTH | _OF_JAVA | OF_LIBRDKAFKA | OURS


def look_at_names(names: Iterable[str], show: Callable[[Step], None]) -> None:
    """Show a step about unknown settings before the first step, if any setting is unknown."""
    step = Step("settings", 0)
    step.details += doubted(names)
    if step.details:
        step.found = "some are ignored"
        step.end()
        show(step)


def doubted(names: Iterable[str]) -> Iterator[str]:
    """Yield a line for each name that looks like a security setting and that no client knows.

    The known settings are those of Java's clients, librdkafka and this project's tools. A line
    suggests the name that was probably meant.
    """
    for name in names:
        if name in KNOWN:
            continue
        similar = closest(name, KNOWN)
        if similar is not None:
            yield f"{name}: no client has such a setting, did you mean {similar}?"
        elif name.startswith(PREFIXES):
            yield f"{name}: no client has such a setting"
