"""A broker in its own process, for the lifetime of a test, a class or a session."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from weakref import WeakSet

from coordinator_server.testing.control import BrokerError, Control
from coordinator_server.testing.helpers import Helpers
from coordinator_server.testing.process import BrokerProcess

if TYPE_CHECKING:
    from coordinator_server.testing.aio import AsyncHelpers
    from coordinator_server.testing.api import ControlApi
    from coordinator_server.testing.secured import Secured

SettingValue = str | int | float | bool | Iterable[str]
"""A setting's value; a list is written as in Kafka: `a,b`."""

Settings = Mapping[str, SettingValue] | Iterable[str]
"""Settings by Kafka's names: {"num.partitions": 3}, or ["num.partitions=3"]."""

DEFAULTS: dict[str, SettingValue] = {
    "group.initial.rebalance.delay.ms": 0,
    "group.streams.initial.rebalance.delay.ms": 0,
    **{
        f"group.{kind}.{name}": value
        for kind in ("consumer", "share", "streams")
        for name, value in (
            ("assignment.interval.ms", 0),
            ("heartbeat.interval.ms", 500),
            ("min.heartbeat.interval.ms", 500),
        )
    },
}
"""Defaults that differ from Kafka's, so that tests need not wait 3 s for the first rebalance."""

_LOOPBACK = ("127.0.0.1", "localhost", "::1")

STARTED: WeakSet[Broker]
"""All brokers that were started in this process and are still referenced."""


class Broker(Helpers):
    """A broker in a subprocess, by default on a free port of the loopback interface.

    `settings` have Kafka's names. Keyword arguments use `_` for `.` (`num_partitions=3`). Without
    `data_dir`, the data is deleted with the process. `log_level` is one of debug, info, warning,
    error. `security` is ssl, sasl_plaintext or sasl_ssl: the broker then creates certificates and
    users (`users`), enables the authorizer, and clients connect with `client_config`. Use a broker
    as a context manager, also with `async with`, or call `start` and `stop`.
    """

    def __init__(
        self,
        settings: Settings = (),
        /,
        *,
        data_dir: str | os.PathLike[str] | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        log_level: str = "info",
        strict: bool = False,
        security: str | None = None,
        **more: SettingValue,
    ) -> None:
        keywords = {name.replace("_", "."): value for name, value in more.items()}
        self.settings: dict[str, str] = {
            name: _rendered(value)
            for name, value in {**DEFAULTS, **_named(settings), **keywords}.items()
        }
        self._data_dir = None if data_dir is None else os.fspath(data_dir)
        self._host = host
        # Whoever reaches the control server controls the broker, so the control server listens on
        # loopback only.
        self._control_host = host if host in _LOOPBACK else "127.0.0.1"
        self._port = port
        self._moves = port == 0
        self._log_level = log_level
        self._strict = strict
        self._secured = _new_secured(security)
        self._process = BrokerProcess()
        self._addresses: tuple[str, ...] = ()
        self._control: Control | None = None

    def __repr__(self) -> str:
        state = f"at {self.bootstrap_servers}" if self._addresses else "not started"
        return f"<Broker {state}>"

    # --- start and stop ---------------------------------------------------------------------------

    def start(self) -> None:
        """Start the broker and wait until it is ready; after `stop` or `kill`, on the same port.

        Does nothing if the broker runs. Raises BrokerError with the broker's own message.
        """
        if self._control is not None and self.is_running:
            return
        self.launch()
        self._process.wait_for_line("listening ")
        host, _, port = self._process.wait_for_line("control ").rpartition(":")
        control = Control((host, int(port)))
        answer = control.call("GET", "/brokers")
        if self._data_dir is None:
            self._process.data_directory = answer["data_directory"]
        self._is_at([broker["listeners"] for broker in answer["brokers"]])
        self._control = control

    def _is_at(self, listeners: list[list[str]]) -> None:
        """Record the listener addresses of the process's brokers."""
        self._addresses = tuple(listener[0].partition("://")[2] for listener in listeners)
        if len(self._addresses) == 1:
            self._port = int(self._addresses[0].rpartition(":")[2])

    def launch(self) -> None:
        """Start the process without waiting until the broker is ready; call `start` to wait."""
        if self._process.is_running:
            return
        self._control = None
        listener = f"{self._host}:{self._port}"
        arguments = (
            ["--listener", listener] if self._secured is None else self._secured.arguments(listener)
        )
        arguments += ["--http", f"{self._control_host}:0"]
        arguments += ["--watch-stdin", "--log-level", self._log_level]
        arguments += ["--ephemeral"] if self._data_dir is None else ["--data-dir", self._data_dir]
        arguments += ["--strict"] if self._strict else []
        for name, value in self.settings.items():
            arguments += ["--set", f"{name}={value}"]
        self._process.launch(arguments)
        STARTED.add(self)

    def stop(self) -> None:
        """Stop the broker cleanly and wait for the end of its process."""
        self._control = None
        self._process.stop()

    def kill(self) -> None:
        """Kill the broker, as SIGKILL or a crash does. `start` starts it again."""
        self._control = None
        self._process.kill()

    def restart(self) -> None:
        """Stop and start the broker. Data is kept only with a `data_dir`."""
        self.stop()
        self.start()

    def reset(self) -> None:
        """Reset the broker: delete all topics, groups and offsets, and close all connections.

        So that clients of an earlier test cannot reconnect, the broker moves to another port unless
        it has a fixed one: read `bootstrap_servers` again. Raises BrokerError.
        """
        query = {"move": "true"} if self._moves else None
        self._is_at(self.control.call("POST", "/reset", query)["listeners"])

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        import asyncio

        await asyncio.to_thread(self.start)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        import asyncio

        await asyncio.to_thread(self.stop)

    # --- properties -------------------------------------------------------------------------------

    @property
    def bootstrap_servers(self) -> str:
        """HOST:PORT for Kafka clients; with broker.count, all addresses separated by commas.

        Raises BrokerError before the start.
        """
        if not self._addresses:
            raise BrokerError("the broker is not started")
        return ",".join(self._addresses)

    def get_bootstrap_server(self) -> str:
        """Return `bootstrap_servers`; named like the method of testcontainers' KafkaContainer."""
        return self.bootstrap_servers

    def client_config(
        self, client: str, user: str = "alice", mechanism: str = "SCRAM-SHA-512"
    ) -> dict[str, Any]:
        """Return the connection settings for "kafka-python", "aiokafka", "confluent" or "java".

        The settings include the address, and nothing else without `security`. `mechanism` is a SASL
        mechanism. Raises BrokerError before the start, ValueError for an unknown client, user or
        mechanism.
        """
        from coordinator_server.testing.secured import client_config

        return client_config(client, self.bootstrap_servers, self._secured, user, mechanism)

    @property
    def users(self) -> dict[str, str]:
        """The users with their passwords, after the start; empty without `security`."""
        return {} if self._secured is None else self._secured.users()

    @property
    def security_directory(self) -> str | None:
        """The `--dev-security` directory with certificates; deleted with this object."""
        return None if self._secured is None else self._secured.directory

    @property
    def control(self) -> Control:
        """The client of the broker's control server.

        Raises BrokerError if the broker does not run.
        """
        if self._control is None:
            raise BrokerError("the broker is not started")
        return self._control

    @property
    def api(self) -> ControlApi:
        """The control API, with a method for each route."""
        from coordinator_server.testing.api import ControlApi

        return ControlApi(self.control)

    @property
    def aio(self) -> AsyncHelpers:
        """The helpers as coroutines, for tests that run in an event loop."""
        from coordinator_server.testing.aio import AsyncHelpers

        return AsyncHelpers(self)

    @property
    def pid(self) -> int:
        """The process id of the broker."""
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether the broker's process is running."""
        return self._process.is_running

    @property
    def exit_code(self) -> int | None:
        """The exit code of the last process: 0 after a clean stop, -9 (1 on Windows) after `kill`.

        None until the process has ended.
        """
        return self._process.exit_code

    @property
    def log(self) -> str:
        """The broker's log since its first start."""
        return self._process.log()

    @property
    def log_size(self) -> int:
        """The size of the log in bytes."""
        return self._process.log_size

    def log_since(self, start: int) -> str:
        """Return the log from byte `start` on."""
        return self._process.log(start)


STARTED = WeakSet()


def _new_secured(security: str | None) -> Secured | None:
    if security is None:
        return None
    from coordinator_server.testing.secured import Secured

    return Secured(security)


def _named(settings: Settings) -> dict[str, SettingValue]:
    """Return settings by name. Raises ValueError for a text that is not NAME=VALUE."""
    if isinstance(settings, Mapping):
        return dict(settings)
    if isinstance(settings, str):
        settings = (settings,)
    named: dict[str, SettingValue] = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals:
            raise ValueError(f"a setting is NAME=VALUE, not {setting!r}")
        named[name.strip()] = value
    return named


def _rendered(value: SettingValue) -> str:
    """Return a value in Kafka's format."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    return ",".join(value)
