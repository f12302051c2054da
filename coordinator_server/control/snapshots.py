"""The control request that copies the data directory while the broker runs."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from coordinator_server.control.errors import ControlError, shown

if TYPE_CHECKING:
    from coordinator_server.control.request import ControlRequest


async def snapshot(request: ControlRequest) -> dict[str, Any]:
    """POST /snapshot: copy the data directory. Raises ControlError.

    The copy is made by `coordinator-server snapshot` in a process of its own, which does not
    disturb the broker.
    """
    directory = request.shaped()["directory"]
    if "\0" in directory:
        raise ControlError(400, f"directory is {shown(directory)}, which has a NUL character")
    target = Path(directory)
    if not target.is_absolute():
        raise ControlError(400, f"directory is {str(target)!r}, not an absolute path")
    source, started_s = request.cluster.topics.volume()[0], perf_counter()
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "coordinator_server",
        "snapshot",
        "--data-dir",
        source,
        str(target),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        output, errors = await process.communicate()
    except asyncio.CancelledError:
        process.kill()
        raise
    if process.returncode:
        reason = errors.decode("utf-8", "replace").strip().removeprefix("coordinator-server: ")
        raise ControlError(400 if process.returncode == 2 else 500, reason[:1000])
    return {
        "directory": str(target),
        "summary": output.decode("utf-8", "replace").splitlines(),
        "duration_ms": round((perf_counter() - started_s) * 1000),
    }
