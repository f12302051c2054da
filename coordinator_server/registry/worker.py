"""The worker process that decodes values: `python -m coordinator_server.registry.worker`.

Standard input has frames: first the address of the registry as JSON, then requests. A frame has a
header (HEADER: the sizes of JSON and of bytes), JSON and bytes. A request is {"id", "most"} and the
bytes of a value behind its schema id; its response is {"type", "name", "error", "is_cut",
"is_unavailable"} and JSON as UTF-8, at most `most` bytes. The process ends at the end of standard
input, and by SIGALRM if a request takes too long, also in code of a library that never returns.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from collections import OrderedDict
from contextlib import suppress
from struct import Struct
from typing import TYPE_CHECKING, Any, NamedTuple

from coordinator_server.registry.address import RegistryAddress
from coordinator_server.registry.client import RegistryClient, RegistryError, UnavailableError
from coordinator_server.registry.schemas import Decode, decoder_of, described

if TYPE_CHECKING:
    from typing import BinaryIO

HEADER = Struct(">II")
SCHEMA_SECONDS, DECODE_SECONDS = 5, 2
"""How long the process may read a schema, and decode a value."""

_MEMORY_BYTES = 1024 * 1024 * 1024
_MOST_NAME_CHARACTERS = 200
_MOST_SCHEMAS = 1_000
_RETRY_SECONDS = 10.0
"""How long a schema that could not be read is not requested again."""


class _Kept(NamedTuple):
    """A schema: its type and its decoder, or the error until `retry_s`.

    `is_unavailable` tells whether the error is about the registry, not about the schema.
    """

    kind: str | None
    decode: Decode | None
    error: str = ""
    retry_s: float = 0.0
    is_unavailable: bool = False


class Schemas:
    """The schemas that were read; the ones that were not used for longest are forgotten."""

    def __init__(self, client: RegistryClient) -> None:
        self._client = client
        self._kept: OrderedDict[int, _Kept] = OrderedDict()

    def find(self, schema_id: int) -> _Kept:
        """Return a schema, read from the registry if necessary."""
        kept = self._kept.get(schema_id)
        if kept is None or (kept.decode is None and time.monotonic() >= kept.retry_s):
            kept = self._kept[schema_id] = self._read(schema_id)
        self._kept.move_to_end(schema_id)
        if len(self._kept) > _MOST_SCHEMAS:
            self._kept.popitem(last=False)
        return kept

    def _read(self, schema_id: int) -> _Kept:
        kind, is_unavailable = None, False
        try:
            schema = self._client.schema(schema_id)
            kind = schema.kind if schema.kind in ("AVRO", "PROTOBUF", "JSON") else None
            return _Kept(kind, decoder_of(schema))
        except RegistryError as error:
            text, is_unavailable = str(error), isinstance(error, UnavailableError)
        except Exception as error:  # error boundary: libraries raise errors of many classes
            text = f"the schema cannot be read: {described(error)}"
        return _Kept(kind, None, text, time.monotonic() + _RETRY_SECONDS, is_unavailable)


def answer(schemas: Schemas, request: dict[str, Any], data: bytes) -> tuple[dict[str, Any], bytes]:
    """Return the response to a request, and the decoded value."""
    _set_alarm(SCHEMA_SECONDS)
    kept = schemas.find(request["id"])
    _set_alarm(DECODE_SECONDS)
    shown: dict[str, Any] = {
        "type": kept.kind,
        "name": None,
        "error": None,
        "is_cut": False,
        "is_unavailable": kept.is_unavailable,
    }
    if kept.decode is None:
        return {**shown, "error": kept.error}, b""
    try:
        text, name = kept.decode(data)
        decoded = text.encode("utf-8", "replace")
    except RegistryError as error:
        return {**shown, "error": str(error)}, b""
    except Exception as error:  # error boundary: libraries raise errors of many classes
        text = f"the value does not match the schema: {described(error)}"
        return {**shown, "error": text}, b""
    shown |= {
        "name": name and name[:_MOST_NAME_CHARACTERS],
        "is_cut": len(decoded) > request["most"],
    }
    return shown, decoded[: request["most"]]


def main(source: BinaryIO, sink: BinaryIO) -> None:
    """Answer requests until the end of `source`."""
    _limit_memory()
    first = _frame(source)
    if first is None:
        return
    schemas = Schemas(RegistryClient(RegistryAddress(first[0]["url"], first[0]["login"])))
    while (frame := _frame(source)) is not None:
        shown, decoded = answer(schemas, *frame)
        _set_alarm(0)
        head = json.dumps(shown).encode()
        sink.write(HEADER.pack(len(head), len(decoded)) + head)
        sink.write(decoded)
        sink.flush()


def _frame(source: BinaryIO) -> tuple[dict[str, Any], bytes] | None:
    header = source.read(HEADER.size)
    if len(header) < HEADER.size:
        return None
    head_bytes, data_bytes = HEADER.unpack(header)
    return json.loads(source.read(head_bytes)), source.read(data_bytes)


def _set_alarm(seconds: int) -> None:
    """End this process by SIGALRM after some seconds, 0: never. Windows has no SIGALRM."""
    if sys.platform != "win32":
        signal.alarm(seconds)


def _limit_memory() -> None:
    """Let allocations beyond _MEMORY_BYTES fail. Windows has no such limit."""
    if sys.platform != "win32":
        import resource

        for limit, most in ((resource.RLIMIT_AS, _MEMORY_BYTES), (resource.RLIMIT_CORE, 0)):
            hard = resource.getrlimit(limit)[1]
            if hard != resource.RLIM_INFINITY:
                most = min(hard, most)
            with suppress(ValueError, OSError):  # macOS refuses RLIMIT_AS
                resource.setrlimit(limit, (most, most))


if __name__ == "__main__":
    main(sys.stdin.buffer, sys.stdout.buffer)
