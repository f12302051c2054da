"""The least that a request can cost here: a server on uvloop that answers every frame alike.

It splits what comes into frames and answers each with the same bytes, but for the correlation id.
What a broker needs above that is its own work. The benchmarks give their figures as multiples of
this server's CPU in the same run, so that they can be compared between machines.
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
_PREFIX_BYTES = 8  # the length and the correlation id, which every answer begins with


class Floor:
    """The server in a process of its own; `answer` is a whole frame. A context manager."""

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
        """CPU time that the process has used."""
        return cpu_seconds(self.pid)

    def resident_mb(self) -> float:
        """Resident memory in MiB."""
        return resident_mb(self.pid)


class _Connection(asyncio.Protocol):
    """Answers each frame."""

    def __init__(self, answer: bytes) -> None:
        self._length, self._rest = answer[:4], answer[_PREFIX_BYTES:]
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Answer what is whole and keep the rest."""
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
    """Read the answer from standard input and serve until that ends."""
    length = sys.stdin.buffer.read(4)
    uvloop.run(_serve(length + sys.stdin.buffer.read(_length_at(length)[0])))
    return 0


if __name__ == "__main__":
    sys.exit(main())
