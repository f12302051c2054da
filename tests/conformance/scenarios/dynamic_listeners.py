"""Listeners that are added and removed at run time (profile K)."""

from __future__ import annotations

import re
import socket
from typing import Any

from protocol.errors import ErrorCode
from tests.conformance import broker_configs
from tests.conformance.broker_configs import ALL, APPEND, DELETE, NODE, SET, SUBTRACT, Change, clean
from tests.conformance.connection import Abort, Conn
from tests.conformance.stage import Area, Stage
from tests.support import free_port

AREA = Area("dynamic_listeners", "k")

LISTENERS, PROTOCOLS = "listeners", "listener.security.protocol.map"


class Listeners:
    """The static listeners, and free ports; transcripts have symbols for both."""

    def __init__(self, t: Stage) -> None:
        clean(t)
        self.t = t
        shown = broker_configs.described(t, NODE, LISTENERS, PROTOCOLS)
        values = {one["name"]: one["value"] for one in shown}
        self.base = values[LISTENERS]
        protocols = values[PROTOCOLS].split(",")
        known = {one.partition(":")[0] for one in protocols}
        own = {one.partition("://")[0] for one in self.base.split(",")}
        self.protocols = ",".join(f"{one}:PLAINTEXT" for one in sorted(known & own))
        self.ports = [free_port() for _ in range(3)]
        first = next(one for one in self.base.split(",") if one.startswith("PLAINTEXT:"))
        self._symbols = {first.rpartition(":")[2]: "<port>"}
        self._symbols |= {str(port): f"<port {number}>" for number, port in enumerate(self.ports)}

    def at(self, *names: str) -> str:
        """Return the static listeners plus others, at the free ports in order."""
        more = [f"{name}://127.0.0.1:{self.ports[n]}" for n, name in enumerate(names)]
        return ",".join([self.base, *more])

    def alter(self, label: str, *changes: Change, name: str = NODE, check: bool = False) -> None:
        """Send IncrementalAlterConfigs; record the error and its message without ports."""
        configs = [
            {"name": key, "config_operation": operation, "value": value}
            for key, operation, value in changes
        ]
        resource = {"resource_type": 4, "resource_name": name, "configs": configs}
        body = {"resources": [resource], "validate_only": check}
        (result,) = self.t.raw("IncrementalAlterConfigs", 1, body)["responses"]
        error = ErrorCode(result["error_code"]).name
        self.t.rec(label, [error, self._symbolic(result["error_message"])])

    def show(self, label: str) -> None:
        """Record the listeners and their protocols from DescribeConfigs."""
        broker_configs.settle(self.t)
        shown = {
            one["name"]: [
                self._symbolic(one["value"]).removeprefix(self._symbolic(self.base)),
                one["config_source"],
                one["read_only"],
            ]
            for one in broker_configs.described(self.t, NODE, LISTENERS)
        }
        self.t.rec(label, shown)

    def connect(self, label: str, port: int) -> Any:
        """Record whether the broker listens at one of the ports; return a connection."""
        deadline_tries = 20
        result, connection = "refused", None
        for _ in range(deadline_tries):
            try:
                connection = Conn("127.0.0.1", self.ports[port], timeout=2.0)
            except ConnectionRefusedError:
                if label.endswith("refused"):
                    break
                self.t.nap(0.1)
                continue
            self.t.conns.append(connection)
            result = "open"
            break
        self.t.rec(label, result)
        return connection

    def ask(self, label: str, connection: Any) -> None:
        """Record whether a request on the connection is answered."""
        try:
            answer = self.t.quiet("ApiVersions", 0, {}, connection)
        except Abort:
            answer = "NO RESPONSE"
        self.t.rec(label, answer if isinstance(answer, str) else "answered")

    def _symbolic(self, text: str | None) -> Any:
        """Return a text without ports, and without the controller of a combined Kafka node."""
        if text is None:
            return None
        text = re.sub(r",\s?CONTROLLER://127.0.0.1:\d+", "", text)
        text = re.sub(r"\bCONTROLLER,|,CONTROLLER\b", "", text)
        return re.sub(
            r"(:\s?)(\d+)", lambda match: match[1] + self._symbols.get(match[2], match[2]), text
        )


@AREA.scenario
def scopes(t: Stage) -> None:
    """Listeners are broker configs, and advertised.listeners cannot change."""
    x = Listeners(t)
    listeners, protocols = x.at("X"), f"{x.protocols},X:PLAINTEXT"
    x.alter("all", (LISTENERS, SET, listeners), (PROTOCOLS, SET, protocols), name=ALL)
    x.alter("map of all", (PROTOCOLS, SET, protocols), name=ALL)
    for key in ("advertised.listeners", "inter.broker.listener.name", "controller.listener.names"):
        x.alter(key, (key, SET, "X"))
    clean(t)


@AREA.scenario
def values(t: Stage) -> None:
    """Listeners without protocol, malformed listeners, and repeated names or ports are refused."""
    x = Listeners(t)
    x.alter("not in the map", (LISTENERS, SET, x.at("X")))
    protocols = (PROTOCOLS, SET, f"{x.protocols},X:PLAINTEXT,Y:SSL,Z:SASL_PLAINTEXT,w:PLAINTEXT")
    port = x.ports[0]
    for bad in (
        f"PLAINTEXT://127.0.0.1:{port}",
        f"X://127.0.0.1:{port},Y://127.0.0.1:{port}",
        f"X://127.0.0.1:{port},Y://[::1]:{port}",
        f"X://127.0.0.1:{port},Y://[::1]:{port},W://[::2]:{port}",
        f"X://localhost:{port},Y://127.0.0.1:{port}",
        f"X://:{port},Y://:{port}",
        f"X://:{port}",
        "X://127.0.0.1:0,Y://127.0.0.1:0",
        f"x://127.0.0.1:{port}",
        f"W://127.0.0.1:{port}",
        f"X://a_b:{port}",
        "X://127.0.0.1",
        f"X:127.0.0.1:{port}",
        "X://127.0.0.1:x",
        f"://127.0.0.1:{port}",
        f"V://127.0.0.1:{port}",
        f"X-Y://127.0.0.1:{port}",
        f" X://127.0.0.1:{port} ",
        "foo",
        ",",
        "",
    ):
        x.alter(
            bad.replace(str(port), "P"), (LISTENERS, SET, f"{x.base},{bad}"), protocols, check=True
        )
    for bad in ("foo", ""):
        x.alter(f"alone {bad}", (LISTENERS, SET, bad), check=True)
    clean(t)


@AREA.scenario
def protocol_maps(t: Stage) -> None:
    """Which values of listener.security.protocol.map are refused?

    For example, an existing listener cannot get another protocol.
    """
    x = Listeners(t)
    for bad in (
        "X:PLAINTEXT",
        "X:PLAINTEXT,",
        "X:plaintext",
        " X : SSL ",
        "X:PLAINTEXT,X:SSL",
        "x:PLAINTEXT,X:SSL",
        "X",
        "X:",
        ":PLAINTEXT",
        "X:PLAINTEXT:Y",
        "X:FOO",
        "",
        ",X:SSL",
        "PLAINTEXT:SSL",
    ):
        x.alter(bad, (PROTOCOLS, SET, f"{x.protocols},{bad}"), check=True)
    for bad in ("", "X:PLAINTEXT", "foo"):
        x.alter(f"alone {bad}", (PROTOCOLS, SET, bad), check=True)
    clean(t)


@AREA.scenario
def come_and_go(t: Stage) -> None:
    """An added listener opens at once; its connections are closed when the listener is removed."""
    x = Listeners(t)
    protocols = (PROTOCOLS, SET, f"{x.protocols},X:PLAINTEXT,Y:PLAINTEXT")
    x.alter("only checked", (LISTENERS, SET, x.at("X")), protocols, check=True)
    x.show("only checked")
    x.connect("is refused", 0)
    x.alter("added", (LISTENERS, SET, x.at("X")), protocols)
    x.show("added")
    first = x.connect("listens", 0)
    x.ask("is answered", first)
    x.alter("another", (LISTENERS, APPEND, f"Y://127.0.0.1:{x.ports[1]}"))
    x.show("another")
    second = x.connect("listens too", 1)
    x.ask("the first goes on", first)
    x.alter("map without it", (PROTOCOLS, SET, x.protocols))
    x.alter("no map", (PROTOCOLS, DELETE, None))
    x.alter("another protocol", (PROTOCOLS, SET, f"{x.protocols},X:SSL,Y:PLAINTEXT"))
    x.alter("one removed", (LISTENERS, SUBTRACT, f"X://127.0.0.1:{x.ports[0]}"))
    x.show("one removed")
    x.ask("its connection", first)
    x.connect("then it is refused", 0)
    x.ask("that of the other", second)
    x.alter("no longer set", (LISTENERS, DELETE, None))
    x.show("no longer set")
    x.ask("the other at last", second)
    x.connect("it is refused", 1)
    x.ask("the broker's own", t.ctl)
    clean(t)


@AREA.scenario
def kept(t: Stage) -> None:
    """Static listeners cannot be removed, and existing listeners cannot move."""
    x = Listeners(t)
    protocols = (PROTOCOLS, SET, f"{x.protocols},X:PLAINTEXT")
    others = x.at("X").replace(next(iter(x.base.split(","))) + ",", "")
    x.alter("replaced", (LISTENERS, SET, others), protocols)
    x.alter("added", (LISTENERS, SET, x.at("X")), protocols)
    connection = x.connect("listens", 0)
    moved = x.at("X").replace(str(x.ports[0]), str(x.ports[1]))
    x.alter("moved", (LISTENERS, SET, moved))
    x.show("moved")
    x.connect("the new port is refused", 1)
    x.ask("goes on", connection)
    x.ask("new connections", x.connect("the old port", 0))
    clean(t)


@AREA.scenario
def own_settings(t: Stage) -> None:
    """A listener that is being added accepts settings; an existing listener accepts none."""
    x = Listeners(t)
    protocols = (PROTOCOLS, SET, f"{x.protocols},X:SASL_PLAINTEXT,Y:PLAINTEXT")
    mechanisms = "listener.name.x.sasl.enabled.mechanisms"
    x.alter("with settings", (mechanisms, SET, "PLAIN"), (LISTENERS, SET, x.at("X")), protocols)
    x.ask("not authenticated", x.connect("listens", 0))
    x.alter("another setting", (mechanisms, SET, "SCRAM-SHA-256"))
    x.alter(
        "another, with a listener", (mechanisms, SET, "PLAIN"), (LISTENERS, SET, x.at("X", "Y"))
    )
    x.alter("a limit", ("listener.name.x.max.connections", SET, "5"))
    x.alter("a limit, with a listener", (LISTENERS, SET, x.at("X", "Y")))
    x.connect("the other", 1)
    clean(t)


@AREA.scenario
def taken_port(t: Stage) -> None:
    """A listener with a port in use is accepted, but the broker continues without that listener."""
    x = Listeners(t)
    protocols = (PROTOCOLS, SET, f"{x.protocols},X:PLAINTEXT")
    with socket.create_server(("127.0.0.1", x.ports[0])):
        x.alter("in use", (LISTENERS, SET, x.at("X")), protocols)
        x.show("in use")
    x.connect("is refused", 0)
    x.ask("the broker's own", t.ctl)
    x.alter("removed", (LISTENERS, DELETE, None))
    x.show("removed")
    x.alter("again", (LISTENERS, SET, x.at("X")))
    x.ask("now it is there", x.connect("listens", 0))
    clean(t)
