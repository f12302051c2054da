"""The control requests that copy the data directory and restore a copy while the broker runs."""

from __future__ import annotations

import asyncio
import signal
import sys
from contextlib import suppress
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from coordinator_server.cluster_restore import NotRestoredError, RestoreSource, remove
from coordinator_server.control.brokers import listeners_of
from coordinator_server.control.errors import ControlError, shown
from coordinator_server.net.acceptor import StartError
from storage.checkpoints import META_PROPERTIES_FILE, read_properties
from storage.replacement import STAGED

if TYPE_CHECKING:
    from coordinator_server.cluster import Cluster
    from coordinator_server.control.request import ControlRequest
    from coordinator_server.control.state import ControlState


_INTERRUPT_SECONDS = 5.0


async def snapshot(request: ControlRequest) -> dict[str, Any]:
    """POST /snapshot: copy the data directory. Raises ControlError."""
    target, started_s = await _directory(request), perf_counter()
    source = request.cluster.topics.volume()[0]
    summary = await _output_of("snapshot", "--data-dir", source, str(target))
    return {
        "directory": str(target),
        "summary": summary,
        "duration_ms": _milliseconds_since(started_s),
    }


async def restore(request: ControlRequest) -> dict[str, Any]:
    """POST /restore: put the running broker back to a snapshot. Raises ControlError.

    The snapshot is copied and verified beside the data while the broker runs. Then the cluster is
    replaced, see `cluster_restore`.
    """
    state, snapshot, started_s = request.state, await _directory(request), perf_counter()
    assert state is not None
    if state.served is None:
        raise ControlError(501, "this process cannot replace its cluster")
    if state.restoring is not None:
        raise ControlError(409, "another request restores a snapshot")
    state.restoring = asyncio.current_task()
    staged = Path(request.cluster.topics.volume()[0], STAGED)
    try:
        summary = await _stage(request.cluster, snapshot, staged)
        outage_s = await _replace(state, RestoreSource(str(snapshot), **request.asker))
    finally:
        state.restoring = None
    cluster = state.served.cluster
    return {
        "directory": str(snapshot),
        "summary": summary,
        "duration_ms": _milliseconds_since(started_s),
        "outage_ms": round(outage_s * 1000),
        "cluster_id": cluster.cluster_id,
        "listeners": listeners_of(cluster),
    }


async def _stage(cluster: Cluster, snapshot: Path, staged: Path) -> list[str]:
    """Copy a snapshot into the data directory; return the output. Raises ControlError."""
    try:
        await remove(staged)  # of a restore that was not committed
        summary = await _output_of("restore", str(snapshot), "--data-dir", str(staged))
        _check_node(cluster, staged)
    except BaseException:
        with suppress(OSError):
            await remove(staged)
        raise
    return summary


async def _replace(state: ControlState, source: RestoreSource) -> float:
    """Replace the cluster; return how many seconds no broker was serving. Raises ControlError."""
    assert state.served is not None
    try:
        return await state.served.restore(source)
    except NotRestoredError as error:
        raise ControlError(500, f"nothing has changed: {error}") from error
    except StartError as error:
        raise ControlError(500, str(error)) from error


def _check_node(cluster: Cluster, directory: Path) -> None:
    """Raise ControlError if a data directory belongs to another node."""
    properties = read_properties((directory / META_PROPERTIES_FILE).read_bytes())
    node_id = properties.get("node.id", properties.get("broker.id", ""))
    if node_id != str(cluster.config.node_id):
        own_id = cluster.config.node_id
        raise ControlError(400, f"the snapshot belongs to node {node_id}, not {own_id}")


async def _directory(request: ControlRequest) -> Path:
    """Return the directory in the body. Raises ControlError."""
    directory = (await request.shaped())["directory"]
    if "\0" in directory:
        raise ControlError(400, f"directory is {shown(directory)}, which has a NUL character")
    if not Path(directory).is_absolute():
        raise ControlError(400, f"directory is {directory!r}, not an absolute path")
    return Path(directory)


def _milliseconds_since(started_s: float) -> int:
    return round((perf_counter() - started_s) * 1000)


async def _output_of(*arguments: str) -> list[str]:
    """Run a command of coordinator-server; return the lines of its output. Raises ControlError.

    The command runs in a process of its own, which does not disturb the broker.
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "coordinator_server",
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        output, errors = await process.communicate()
    except asyncio.CancelledError:
        await _interrupt(process)
        raise
    if process.returncode:
        reason = errors.decode("utf-8", "replace").strip().removeprefix("coordinator-server: ")
        raise ControlError(400 if process.returncode == 2 else 500, reason[:1000])
    return output.decode("utf-8", "replace").splitlines()


async def _interrupt(process: asyncio.subprocess.Process) -> None:
    """End a command as Ctrl-C does, so that the command removes its copy; else kill it."""
    with suppress(ProcessLookupError):
        if sys.platform != "win32":
            process.send_signal(signal.SIGINT)
            with suppress(TimeoutError):
                async with asyncio.timeout(_INTERRUPT_SECONDS):
                    await process.wait()
        if process.returncode is None:
            process.kill()
            await process.wait()
