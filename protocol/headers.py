"""Headers of requests and responses: declarations, and hand-written fast codecs.

Every request header is decoded here, without construct or the generator. Version 1 of the request
header is plain, version 2 ends with tagged fields; the client id has an int16 length in both.
"""

from __future__ import annotations

from struct import Struct
from struct import error as StructError  # noqa: N812

from protocol.errors import ProtocolError
from protocol.registry import SPEC_BY_KEY
from protocol.schema import INT16, INT32, PLAIN_STRING, Message, field
from protocol.utf8 import JAVA_REPLACE
from protocol.varint import skip_tagged_fields

_FIXED = Struct(">hhih")
_RESPONSE_PLAIN = Struct(">ii")
_RESPONSE_FLEXIBLE = Struct(">iix")


class RequestHeader(Message, versions=(1, 2), flexible_since=2):
    """The header before every request body. The client id may be null."""

    api_key: int = field(INT16)
    api_version: int = field(INT16)
    correlation_id: int = field(INT32)
    client_id: str | None = field(PLAIN_STRING, nullable_since=0)


class ResponseHeader(Message, versions=(0, 1), flexible_since=1):
    """The header before every response body, with the request's correlation id."""

    correlation_id: int = field(INT32)


def decode_request_header(
    buffer: bytes | bytearray | memoryview, position: int = 0
) -> tuple[RequestHeader, int]:
    """Decode the header at `position`; return the header and the position of the body.

    API key and version determine the header version. For an unknown API key the header is decoded
    as version 1, and the caller rejects the request. Raises ProtocolError if the bytes are too
    short.
    """
    try:
        api_key, api_version, correlation_id, length = _FIXED.unpack_from(buffer, position)
        position += 10
        client_id = None
        if length >= 0:
            end = position + length
            if end > len(buffer):
                raise ProtocolError(f"client id of {length} bytes runs past the end")
            client_id = str(buffer[position:end], "utf-8", JAVA_REPLACE)
            position = end
        spec = SPEC_BY_KEY.get(api_key)
        if spec is not None:
            since = spec.request_flexible_since
            if since is not None and api_version >= since:
                if buffer[position]:
                    position = skip_tagged_fields(buffer, position)
                else:
                    position += 1
    except (StructError, IndexError) as error:
        raise ProtocolError("the frame ends inside the request header") from error
    header = RequestHeader.__new__(RequestHeader)
    header.api_key = api_key
    header.api_version = api_version
    header.correlation_id = correlation_id
    header.client_id = client_id
    return header, position


def response_prefix(correlation_id: int, flexible: bool, body_size: int) -> bytes:
    """Return frame length and response header, to send before a body of `body_size` bytes.

    `flexible` means response header version 1 (see `ApiSpec.response_header_version`).
    """
    if flexible:
        return _RESPONSE_FLEXIBLE.pack(body_size + 5, correlation_id)
    return _RESPONSE_PLAIN.pack(body_size + 4, correlation_id)
