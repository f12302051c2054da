"""The wire path: a decoder and an encoder per message and version, compiled when first asked for.

    decode = decoder(JoinGroupRequest, 9)
    request, position = decode(frame, body_position)

The functions are generated from the construct Struct of that version (`protocol.generator`).
"""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

from protocol.schema import Message

M_co = TypeVar("M_co", bound=Message, covariant=True)
M_contra = TypeVar("M_contra", bound=Message, contravariant=True)
M = TypeVar("M", bound=Message)


class Decoder(Protocol[M_co]):
    """Reads one message at `position`; bytes behind it are left alone.

    Returns the message and the position behind it; ProtocolError when the bytes do not parse.
    Records in the message are memoryviews of `buffer`.
    """

    def __call__(self, buffer: bytes | memoryview, position: int = 0) -> tuple[M_co, int]:
        """The message and the position behind it."""
        ...


class Encoder(Protocol[M_contra]):
    """The bytes of one message. Fields that the version does not carry are left out."""

    def __call__(self, message: M_contra) -> bytes:
        """The bytes of `message`."""
        ...


_decoders: dict[tuple[type[Message], int], Any] = {}
_encoders: dict[tuple[type[Message], int], Any] = {}


def decoder(message_type: type[M], version: int) -> Decoder[M]:
    """The decoder of a message at a version; ProtocolError when the version does not exist."""
    found: Decoder[M] | None = _decoders.get((message_type, version))
    if found is None:
        from protocol.generator import compile_function, decoder_source

        source, scope = decoder_source(message_type.at(version))
        title = f"{message_type.__name__} v{version} decoder"
        found = _decoders[message_type, version] = compile_function(source, scope, title)
    return found


def encoder(message_type: type[M], version: int) -> Encoder[M]:
    """The encoder of a message at a version; ProtocolError when the version does not exist."""
    found: Encoder[M] | None = _encoders.get((message_type, version))
    if found is None:
        from protocol.generator import compile_function, encoder_source

        source, scope = encoder_source(message_type.at(version))
        title = f"{message_type.__name__} v{version} encoder"
        found = _encoders[message_type, version] = compile_function(source, scope, title)
    return found
