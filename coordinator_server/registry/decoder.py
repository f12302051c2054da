"""Decodes the contents of one response in the worker process, within limits of time and size."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coordinator_server import _PACKAGES
from coordinator_server.registry.worker import DECODE_SECONDS, HEADER, SCHEMA_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from coordinator_server.registry.address import RegistryAddress
    from coordinator_server.registry.framed import Framed

MOST_VALUE_BYTES = 1024 * 1024
"""Limit of a value that is decoded."""

PAGE_SECONDS = 6.0
"""How long the contents of one response are decoded; further contents get a reason."""

_HEAD_BYTES = 64 * 1024
_START_SECONDS = 3.0
_MOST_SECONDS = _START_SECONDS + SCHEMA_SECONDS + DECODE_SECONDS
_VARIABLES = frozenset(
    (
        *("HOME", "LANG", "LC_ALL", "PATH", "SSL_CERT_DIR", "SSL_CERT_FILE"),
        *("SYSTEMROOT", "TEMP", "TMP", "TMPDIR"),
    )
)
"""The variables that the worker gets; Windows needs SYSTEMROOT."""

_ROOT = Path(__file__).parents[2]  # the folder that has this package


class RegistryDecoder:
    """Decodes values with the schemas of one registry. The first value starts the worker.

    `on_unavailable` gets the reason when the registry could not be read.
    """

    def __init__(self, address: RegistryAddress, on_unavailable: Callable[[str], None]) -> None:
        self._address = address
        self._on_unavailable = on_unavailable
        self._process: asyncio.subprocess.Process | None = None
        self._lock = asyncio.Lock()

    def stop(self) -> None:
        """End the worker, and protoc if the worker runs it."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                if sys.platform == "win32":
                    self._process.kill()
                else:  # the worker may have ended before protoc
                    os.killpg(self._process.pid, signal.SIGKILL)
            self._process = None

    async def decode(self, contents: Sequence[Framed], most_bytes: int, total_bytes: int) -> None:
        """Set the field `decoded` of contents, a shape of `records.Decoded`.

        `most_bytes` limits each text, `total_bytes` the sum of the texts.
        """
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + PAGE_SECONDS
        for shown, schema_id, body in contents:
            if len(body) > MOST_VALUE_BYTES:
                text = f"contents of more than {MOST_VALUE_BYTES} bytes are not decoded"
                shown["decoded"] = _failed(text)
            elif loop.time() >= deadline_s:
                text = f"decoding the other contents took {PAGE_SECONDS:g} s"
                shown["decoded"] = _failed(text)
            elif total_bytes <= 0:
                shown["decoded"] = _failed("the other decoded contents are too large")
            else:
                decoded = await self._decoded(schema_id, body, most_bytes, deadline_s)
                total_bytes -= len(decoded["text"] or "")
                shown["decoded"] = decoded

    async def _decoded(
        self, schema_id: int, body: bytes, most_bytes: int, deadline_s: float
    ) -> dict[str, Any]:
        try:
            async with asyncio.timeout_at(deadline_s):
                await self._lock.acquire()
        except TimeoutError:
            return _failed("the values of other requests are being decoded")
        is_done = False
        try:
            async with asyncio.timeout(_MOST_SECONDS):
                decoded = await self._ask(schema_id, body, most_bytes)
            is_done = True
            return decoded
        except TimeoutError:
            return _failed(f"decoding took more than {_MOST_SECONDS:g} s")
        except (OSError, EOFError, RuntimeError, ValueError):  # RuntimeError: uvloop's closed pipe
            text = "the process that decodes has ended: the value or its schema needs too much"
            return _failed(f"{text} time or memory")
        finally:
            if not is_done:
                self.stop()
            self._lock.release()

    async def _ask(self, schema_id: int, body: bytes, most_bytes: int) -> dict[str, Any]:
        """Return the response of the worker. Raises OSError, EOFError, RuntimeError."""
        if self._process is None or self._process.returncode is not None:
            try:
                self._process = await self._started()
            except OSError as error:
                text = f"the process that decodes cannot be started: {error.strerror}"
                return _failed(text)
        source, sink = self._process.stdout, self._process.stdin
        assert source is not None
        assert sink is not None
        head = json.dumps({"id": schema_id, "most": most_bytes}).encode()
        sink.write(HEADER.pack(len(head), len(body)) + head)
        sink.write(body)
        await sink.drain()
        head_bytes, text_bytes = HEADER.unpack(await source.readexactly(HEADER.size))
        if head_bytes > _HEAD_BYTES or text_bytes > most_bytes:
            raise ValueError("the worker sends something else than a response")
        shown = json.loads(await source.readexactly(head_bytes))
        text = (await source.readexactly(text_bytes)).decode("utf-8", "ignore")
        if shown["is_unavailable"]:
            self._on_unavailable(shown["error"])
        return {
            "schema_type": shown["type"],
            "name": shown["name"],
            "text": None if shown["error"] else text,
            "is_cut": shown["is_cut"],
            "error": shown["error"],
        }

    async def _started(self) -> asyncio.subprocess.Process:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",  # the working directory, where anyone may have put modules, is not imported from
            "-m",
            "coordinator_server.registry.worker",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env=_environment(),
            start_new_session=True,
        )
        assert process.stdin is not None
        head = json.dumps(self._address._asdict()).encode()
        process.stdin.write(HEADER.pack(len(head), 0) + head)
        return process


def _environment() -> dict[str, str]:
    """Return the variables of the worker; others, such as secrets, are left out."""
    paths = [str(_ROOT), _PACKAGES, os.environ.get("PYTHONPATH", "")]
    kept = {name: value for name, value in os.environ.items() if name.upper() in _VARIABLES}
    return {**kept, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


def _failed(reason: str) -> dict[str, Any]:
    """Return a content that was not decoded, in the shape `records.Decoded`."""
    return {"schema_type": None, "name": None, "text": None, "is_cut": False, "error": reason}
