"""Decoders and encoders per message and version, compiled on first use.

    decode = decoder(JoinGroupRequest, 9)
    request, position = decode(frame, body_position)

The functions are generated from the construct Struct of that version (`protocol.generator`).
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Protocol, TypeVar

from protocol.errors import ProtocolError
from protocol.schema import Message

M_co = TypeVar("M_co", bound=Message, covariant=True)
M_contra = TypeVar("M_contra", bound=Message, contravariant=True)
M = TypeVar("M", bound=Message)

Buffer = bytes | bytearray | memoryview


class Decoder(Protocol[M_co]):
    """Decodes one message at `position`, ignoring bytes after the message.

    Raises ProtocolError if the bytes are malformed. Records in the message are memoryviews of
    `buffer`.
    """

    def __call__(self, buffer: Buffer, position: int = 0) -> tuple[M_co, int]:
        """Return the message and the position after the message."""
        ...


class Encoder(Protocol[M_contra]):
    """Encodes one message, without the fields that the version does not have."""

    def __call__(self, message: M_contra) -> bytes:
        """Return the bytes of `message`."""
        ...


class StepDecoder(Protocol[M_co]):
    """A decoder for large messages: a generator that yields between steps of its work."""

    def __call__(
        self, buffer: Buffer, position: int = 0
    ) -> Generator[None, None, tuple[M_co, int]]:
        """Return steps whose result is the message and the position after the message."""
        ...


class StepEncoder(Protocol[M_contra]):
    """An encoder for large messages: a generator that yields between steps of its work."""

    def __call__(self, message: M_contra) -> Generator[None, None, bytes | bytearray]:
        """Return steps whose result is the bytes of `message`."""
        ...


class PartsEncoder(Protocol[M_contra]):
    """An encoder that does not copy records: it returns the bytes of a message in parts."""

    def __call__(self, message: M_contra) -> list[bytes]:
        """Return the parts, to be sent in order."""
        ...


class StepPartsEncoder(Protocol[M_contra]):
    """A `PartsEncoder` for large messages."""

    def __call__(self, message: M_contra) -> Generator[None, None, list[bytes]]:
        """Return steps whose result is the parts."""
        ...


_functions: dict[tuple[type[Message], int, str], Any] = {}


def decoder(message_type: type[M], version: int) -> Decoder[M]:
    """Return the decoder of a message version. Raises ProtocolError for an unknown version."""
    decode: Decoder[M] = _function(message_type, version, "decoder")
    return decode


def encoder(message_type: type[M], version: int) -> Encoder[M]:
    """Return the encoder of a message version. Raises ProtocolError for an unknown version."""
    encode: Encoder[M] = _function(message_type, version, "encoder")
    return encode


def step_decoder(message_type: type[M], version: int) -> StepDecoder[M]:
    """Like `decoder`, in steps."""
    decode: StepDecoder[M] = _function(message_type, version, "step decoder")
    return decode


def step_encoder(message_type: type[M], version: int) -> StepEncoder[M]:
    """Like `encoder`, in steps."""
    encode: StepEncoder[M] = _function(message_type, version, "step encoder")
    return encode


def parts_encoder(message_type: type[M], version: int) -> PartsEncoder[M]:
    """Like `encoder`, for a message with records, returning parts."""
    encode: PartsEncoder[M] = _function(message_type, version, "parts encoder")
    return encode


def step_parts_encoder(message_type: type[M], version: int) -> StepPartsEncoder[M]:
    """Like `parts_encoder`, in steps."""
    encode: StepPartsEncoder[M] = _function(message_type, version, "step parts encoder")
    return encode


def _function(message_type: type[Message], version: int, kind: str) -> Any:
    function = _functions.get((message_type, version, kind))
    if function is None:
        from protocol.generator import compile_function, decoder_source, encoder_source

        struct, in_steps = message_type.at(version), kind.startswith("step")
        if kind.endswith("decoder"):
            source, scope = decoder_source(struct, in_steps=in_steps)
        else:
            source, scope = encoder_source(struct, in_steps=in_steps, in_parts="parts" in kind)
        title = f"{message_type.__name__} v{version} {kind}"
        function = compile_function(source, scope, title)
        _functions[message_type, version, kind] = function
    return function


def leading_int16(data: bytes) -> int:
    """Return the record type of an internal topic's key, or the version of a value.

    Raises ProtocolError if the bytes are too short.
    """
    if len(data) < 2:
        raise ProtocolError(f"{len(data)} bytes where a record type or version is due")
    return int.from_bytes(data[:2], "big", signed=True)
