"""A minimal server on uvloop that sends the same response to every frame.

The server splits its input into frames and answers each with the same bytes, except the correlation
id. This is the minimum cost of any server; the CPU that a broker uses beyond this minimum is spent
in the broker's code. The benchmarks report a broker's CPU as a multiple of this server's CPU in the
same run, so that figures can be compared between machines.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from struct import Struct
from types import TracebackType
from typing import Self, cast

import uvloop

from tests.support import address_of, cpu_seconds, resident_mb

_length_at = Struct(">i").unpack_from
_PREFIX_BYTES = 8  # every response begins with its length and the correlation id


class Floor:
    """The server in its own process; `answer` is a complete frame. A context manager."""

    def __init__(self, answer: bytes) -> None:
        self._answer = answer

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "benchmarks.floor"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(self._answer)
        self._process.stdin.flush()
        line = self._process.stdout.readline().decode()
        self.address = address_of(line.removeprefix("listening ").strip())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._process.stdout is not None
        self._process.kill()
        self._process.communicate()

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def cpu_seconds(self) -> float:
        """Return the CPU time that the process has used."""
        return cpu_seconds(self.pid)

    def resident_mb(self) -> float:
        """Return the resident memory in MiB."""
        return resident_mb(self.pid)


class _Connection(asyncio.Protocol):
    """Answers each frame of a connection."""

    def __init__(self, answer: bytes) -> None:
        self._length, self._rest = answer[:4], answer[_PREFIX_BYTES:]
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Answer the complete frames and keep the rest."""
        if self._received:
            data = self._received + data
        position, end = 0, len(data)
        while end - position >= 4:
            after = position + 4 + _length_at(data, position)[0]
            if after > end:
                break
            correlation_id = data[position + 8 : position + 12]
            self._transport.write(self._length + correlation_id + self._rest)
            position = after
        self._received = data[position:]


async def _serve(answer: bytes) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Connection(answer), "127.0.0.1", 0, backlog=4096)
    print("listening {}:{}".format(*server.sockets[0].getsockname()), flush=True)
    ended = asyncio.Event()
    loop.add_reader(sys.stdin, ended.set)
    await ended.wait()


def main() -> int:
    """Read the response from standard input and serve until standard input closes."""
    length = sys.stdin.buffer.read(4)
    uvloop.run(_serve(length + sys.stdin.buffer.read(_length_at(length)[0])))
    return 0


if __name__ == "__main__":
    sys.exit(main())
