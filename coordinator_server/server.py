"""The process: start, stop and signals.

The start opens the logs, then the sockets, then prints `listening HOST:PORT` for each listener of
the first broker. SIGTERM, SIGINT or SIGHUP stop the process: it accepts no new connections, answers
parked requests, then closes the connections and the logs. A second signal ends it at once.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
from contextlib import suppress
from functools import partial
from threading import Thread
from typing import TYPE_CHECKING, Any

from coordinator_server.clock.broker_clock import SystemClock
from coordinator_server.config.authorizer_settings import authorizer_doubts
from coordinator_server.config.settings import QUORUM_VOTERS
from coordinator_server.config.typos import describe_unknown
from coordinator_server.events.log import LOG
from coordinator_server.maintenance.collector import CollectionTimer
from coordinator_server.maintenance.descriptors import raise_limit
from coordinator_server.net.acceptor import StartError
from storage.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from coordinator_server.cluster import Cluster
    from coordinator_server.config.config import Config
    from coordinator_server.control.state import ControlOptions
    from coordinator_server.tracing.options import TracingOptions
    from coordinator_server.tracing.tracing import Tracing


def run(
    config: Config,
    control: tuple[str, int] | None = None,
    *,
    control_token: str | None = None,
    control_options: ControlOptions | None = None,
    tracing_options: TracingOptions | None = None,
    faults: Sequence[Mapping[str, Any]] = (),
    watch_stdin: bool = False,
    ready_message: str | None = None,
) -> int:
    """Serve until a signal, or with `watch_stdin` the end of standard input; return the exit code.

    `control` is the address of the control server, None for no control server, and `control_token`
    the token that its clients must send, `control_options` its options. `tracing_options` send
    traces and logs. `faults` are fault rules. `ready_message` is printed after the addresses once
    the broker listens. Raises StartError, ConfigError.
    """
    raise_limit()
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        control_server = control, control_token, control_options
        serving = _serve(
            config, control_server, tracing_options, faults, watch_stdin, ready_message
        )
        runner.run(serving)
    return 0


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    try:
        import uvloop
    except ImportError:  # uvloop does not support Windows
        return asyncio.new_event_loop
    return uvloop.new_event_loop


async def _serve(
    config: Config,
    control_arguments: tuple[tuple[str, int] | None, str | None, ControlOptions | None],
    tracing_options: TracingOptions | None,
    faults: Sequence[Mapping[str, Any]],
    watch_stdin: bool,
    ready_message: str | None,
) -> None:
    """Serve until a signal, and send traces and logs also if the start or the stop fails."""
    if tracing_options is None:
        await _serve_traced(config, control_arguments, None, faults, watch_stdin, ready_message)
        return
    from coordinator_server.tracing.tracing import Tracing

    tracing = Tracing(tracing_options)
    tracing.start()
    try:
        await _serve_traced(config, control_arguments, tracing, faults, watch_stdin, ready_message)
    finally:
        await tracing.stop()


async def _serve_traced(
    config: Config,
    control_arguments: tuple[tuple[str, int] | None, str | None, ControlOptions | None],
    tracing: Tracing | None,
    faults: Sequence[Mapping[str, Any]],
    watch_stdin: bool,
    ready_message: str | None,
) -> None:
    from coordinator_server.cluster_restore import ServedCluster
    from coordinator_server.composition import compose

    control, control_token, control_options = control_arguments
    counts = None
    if control is not None:
        from coordinator_server.counting.counts import Counts

        counts = Counts()
    served = ServedCluster(
        lambda handover: compose(
            config,
            SystemClock(),
            has_virtual_clock=control is not None,
            counts=counts,
            tracing=tracing,
            faults=faults,
            handover=handover,
        )
    )
    control_server, control_address = None, ""
    try:
        # Install signal handlers before listening, because a client may signal the process.
        stop = _stop_on_signal()
        served.failed.add_done_callback(partial(_fail, stop))
        addresses = await served.listen()
        if control is not None:
            from coordinator_server.control.http import ControlServer

            control_server = ControlServer(
                served.cluster, token=control_token, options=control_options, served=served
            )
            control_address = await control_server.start(*control)
        if watch_stdin:
            _stop_at_end_of_stdin(stop)
        # Objects that exist now live as long as the process, so the collector can skip them.
        gc.freeze()
        gc.callbacks.append(CollectionTimer())
        gc.enable()
        for listener in addresses:
            _announce(f"listening {listener.address}")
        if watch_stdin and control_server is not None:
            _announce(f"control {control_address}")  # the parent process reads this line
        if ready_message is not None:
            _announce(ready_message)
        _warn(config, served.cluster)
        reason = await stop
        LOG.emit("broker.stopping", reason=reason)
    finally:
        served.is_stopping = True
        if control_server is not None:
            await control_server.stop()
        try:
            await served.stop()
        except StorageError as error:
            raise StartError(f"the data directory could not be left in order: {error}") from error
    LOG.emit("broker.stopped")


def _warn(config: Config, cluster: Cluster) -> None:
    """Log settings that have no effect, are unknown, or probably unintended."""
    if config.ignored:
        LOG.emit("settings.ignored", settings=", ".join(config.ignored))
    if config.unknown:
        LOG.emit("settings.unrecognized", settings=describe_unknown(config.unknown))
    if doubts := _doubts(cluster):
        LOG.emit("settings.doubted", settings="; ".join(doubts))


def _fail(stop: asyncio.Future[str], failed: asyncio.Future[None]) -> None:
    """End the process with the error of a failed restore."""
    error = None if failed.cancelled() else failed.exception()
    if error is not None and not stop.done():
        stop.set_exception(error)


def _doubts(cluster: Cluster) -> list[str]:
    """Return warnings about settings that are valid but probably unintended."""
    config = cluster.config
    doubts = authorizer_doubts(
        config.text("authorizer.class.name"),
        config.text("super.users"),
        allows_everyone=config.boolean("allow.everyone.if.no.acl.found"),
    )
    voters = len(config.items(QUORUM_VOTERS))
    if voters > 1 and config.integer("broker.count") == 1:
        doubts.append(
            f"{QUORUM_VOTERS}: several containers or processes do not form a cluster: one "
            f"with broker.count={voters} (KAFKA_BROKER_COUNT={voters}) and the names of the others "
            "as network aliases replaces them, see docs/docker.md"
        )
    if config.optional_text("create.topics") is not None:
        from coordinator_server.topics.initial_topics import initial_topic_doubts

        doubts += initial_topic_doubts(config)
    if listeners := cluster.security.unsecured_listeners:
        doubts.append(
            f"listener {', '.join(listeners)}: tokens of OAUTHBEARER need no signature, as in "
            "Kafka without sasl.oauthbearer.jwks.endpoint.url: clients name themselves as they like"
        )
    return doubts


def _announce(line: str) -> None:
    """Print a line and flush. Errors are ignored: the broker runs on without its output."""
    with suppress(OSError):
        print(line, flush=True)


def _stop_on_signal() -> asyncio.Future[str]:
    """Return a future that the first stop signal resolves; a second signal ends the process.

    Stop signals are SIGTERM, SIGINT and, unless nohup ignores it, SIGHUP (as in Java), and Ctrl-C
    and Ctrl-Break on Windows.
    """
    loop = asyncio.get_running_loop()
    stop: asyncio.Future[str] = loop.create_future()

    def on_signal(number: int) -> None:
        if stop.done():
            print("stopped at once by a second signal", file=sys.stderr, flush=True)
            os._exit(128 + number)
        stop.set_result(signal.Signals(number).name)

    numbers = [signal.SIGTERM, signal.SIGINT]
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    if sys.platform == "win32":
        numbers.append(signal.SIGBREAK)
    for number in numbers:
        try:
            loop.add_signal_handler(number, on_signal, number)
        except NotImplementedError:  # Windows' loops have no signal handlers
            signal.signal(number, lambda n, _: loop.call_soon_threadsafe(on_signal, n))
    return stop


def _stop_at_end_of_stdin(stop: asyncio.Future[str]) -> None:
    """Resolve `stop` when the process that holds standard input ends, even by SIGKILL.

    Input is discarded. Raises StartError when standard input cannot be watched.
    """
    loop = asyncio.get_running_loop()
    stdin = 0

    def has_ended() -> bool:
        try:
            return not os.read(stdin, 4096)
        except OSError:
            return True

    def on_end() -> None:
        if not stop.done():
            stop.set_result("end of standard input")

    def on_readable() -> None:
        if has_ended():
            loop.remove_reader(stdin)
            on_end()

    def read_to_end() -> None:
        while not has_ended():
            pass
        with suppress(RuntimeError):  # the broker has stopped, so the loop is closed
            loop.call_soon_threadsafe(on_end)

    try:
        loop.add_reader(stdin, on_readable)
    except NotImplementedError:  # the Windows event loop cannot watch pipes
        Thread(target=read_to_end, name="stdin", daemon=True).start()
    except OSError as error:
        reason = "standard input has to be a pipe, a socket or a terminal"
        raise StartError(f"--watch-stdin: {reason}: {error.strerror}") from error
