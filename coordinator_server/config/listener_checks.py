"""Validation of listener changes at run time, with Kafka's messages.

First the new listeners are checked (SocketServerConfigs and KafkaConfig.validateValues), then the
changes of existing listeners (DynamicListenerConfig.validateReconfiguration).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from ipaddress import ip_address
from typing import TYPE_CHECKING, Protocol

from coordinator_server.config.security_protocol import SecurityProtocol

if TYPE_CHECKING:
    from coordinator_server.config.config import Config
    from storage.config_def import Value

LISTENERS = "listeners"
PROTOCOLS = "listener.security.protocol.map"

_ENDPOINT = re.compile(r"(.*)://\[?([0-9a-zA-Z\-%._:]*)\]?:(-?[0-9]+)", re.DOTALL)
_LAST_PORT = 65_535
_NO_NAME = "The provided listener name is null or empty string"
_ONE_PORT = (
    "If you have two listeners on the same port then one needs to be IPv4 and the other IPv6"
)
_ONE_PORT_EACH = (
    "Each listener must have a different port unless exactly one listener has an IPv4 address and "
    "the other IPv6 address"
)


class NewListeners(Protocol):
    """The settings of a broker after a change.

    `fixed_listeners` have configs that cannot be changed while the listener is running.
    """

    fixed_listeners: set[str]

    def value(self, name: str) -> Value:
        """Return the value of a broker setting."""


def listeners_problem(new: NewListeners, config: Config) -> str | None:
    """Return the error in the new listeners; None if they are valid or unchanged."""
    if all(new.value(name) == config.value(name) for name in (LISTENERS, PROTOCOLS)):
        return None
    texts = _items(new.value(LISTENERS))
    protocols, problem = _read_protocols(str(new.value(PROTOCOLS)))
    if problem is not None:
        return problem
    problem = _endpoints_problem(texts, protocols)
    if problem is not None:
        return f"Error creating broker listeners from '[{', '.join(texts)}]': {problem}"
    names = [_name(text) for text in texts]
    controllers = {name.upper() for name in config.items("controller.listener.names")}
    of_start = [_name(text) for text in _items(config.static_value(LISTENERS))]
    if controllers.intersection(of_start) and not controllers.intersection(names):
        return (
            "requirement failed: controller.listener.names must contain at least one value "
            "appearing in the 'listeners' configuration when running the KRaft controller role"
        )
    advertised = advertised_names(config)
    if not set(advertised) <= set(names):
        return (
            "requirement failed: advertised.listeners listener names must be equal to or a subset "
            f"of the ones defined in listeners. Found {','.join(advertised)}. The valid options "
            f"based on the current configuration are {','.join(names)}"
        )
    return None


def existing_listeners_problem(new: NewListeners, config: Config) -> str | None:
    """Return why a remaining listener cannot be changed as requested, or None."""
    protocols, _ = _read_protocols(str(new.value(PROTOCOLS)))
    names = {_name(text) for text in _items(new.value(LISTENERS))}
    for listener in config.listeners():
        if listener.name not in names:
            continue
        if listener.name.lower() in new.fixed_listeners:
            return (
                "Configs cannot be updated dynamically for existing listener "
                f"ListenerName({listener.name}), restart broker or create a new listener for update"
            )
        current, _ = _read_protocols(config.text(PROTOCOLS))
        if current.get(listener.name) is not protocols.get(listener.name):
            return (
                "Security protocol cannot be updated for existing listener "
                f"ListenerName({listener.name})"
            )
    return None


def advertised_names(config: Config) -> list[str]:
    """Return the names of advertised listeners; with `auto` the names of the static listeners."""
    advertised = list(config.advertised_listeners())
    return advertised or [listener.name for listener in config.listeners_of_start()]


def _read_protocols(text: str) -> tuple[dict[str, SecurityProtocol], str | None]:
    """Parse `listener.security.protocol.map`; return the protocols by listener, and the error."""
    given: dict[str, str] = {}
    items = re.split(r"\s*,\s*", text.strip()) if text.strip() else []
    while items and not items[-1]:
        items.pop()  # Java's split drops trailing empty items
    for item in items:
        name, separator, protocol = item.rpartition(":")
        if not separator:
            reason = f"begin 0, end -1, length {len(item)}"
            return {}, f"Error parsing configuration property '{PROTOCOLS}': {reason}"
        given[name.strip()] = protocol.strip()
    protocols: dict[str, SecurityProtocol] = {}
    for name, protocol in given.items():
        if not name:
            return {}, _NO_NAME
        known = SecurityProtocol.__members__.get(protocol.upper())
        if known is None:
            return {}, f"Invalid security protocol `{protocol}` defined in {PROTOCOLS}"
        if name.upper() in protocols:
            values = f"{protocols[name.upper()].name} and {known.name}"
            key = f"ListenerName({name.upper()})"
            return {}, f"Duplicate key {key} (attempted merging values {values})"
        protocols[name.upper()] = known
    return protocols, None


def _endpoints_problem(texts: Iterable[str], protocols: Mapping[str, object]) -> str | None:
    endpoints: list[tuple[str, str, int]] = []
    for text in texts:
        match = _ENDPOINT.fullmatch(text)
        if match is None or not 0 <= int(match[3]) <= _LAST_PORT:
            return f"Unable to parse {text} to a broker endpoint"
        name, host, port = match[1].strip().upper(), match[2], int(match[3])
        if not name:
            return _NO_NAME
        if name not in protocols:
            return f"No security protocol defined for listener {name}"
        endpoints.append((name, host, port))
    shown = f"listeners: [{', '.join(texts)}]"
    if len({name for name, _, _ in endpoints}) < len(endpoints):
        return f"Each listener must have a different name, {shown}"
    hosts: dict[int, list[str]] = {}
    for _, host, port in endpoints:
        hosts.setdefault(port, []).append(host)
    for port, taken in hosts.items():
        versions = [_version(host) for host in taken]
        if port == 0 or len(taken) == 1:
            continue
        if set(versions) == {None}:
            return f"Each listener must have a different port, {shown}"
        if len(taken) > 2 or None in versions:
            return f"{_ONE_PORT_EACH}, {shown}, port: {port}"
        if versions[0] == versions[1]:
            return f"{_ONE_PORT}, {shown}, port: {port}"
    return None


def _version(host: str) -> int | None:
    """Return the version of an IP address; None for a name or an empty host."""
    try:
        return ip_address(host).version
    except ValueError:
        return None


def _items(value: Value) -> tuple[str, ...]:
    assert isinstance(value, tuple)
    return value


def _name(text: str) -> str:
    return text.partition("://")[0].strip().upper()
