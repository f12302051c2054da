"""SaslHandshake (key 17): selects the SASL mechanism. Versions 0-1, none flexible.

After version 0, tokens are sent as bare frames; after version 1, in SaslAuthenticate (KIP-152).
"""

from __future__ import annotations

from protocol.schema import ARRAY, INT16, STRING, Message, field


class SaslHandshakeRequest(Message, versions=(0, 1)):
    """The selected mechanism, such as PLAIN."""

    mechanism: str = field(STRING)


class SaslHandshakeResponse(Message, versions=(0, 1)):
    """The enabled mechanisms."""

    error_code: int = field(INT16)
    mechanisms: list[str] = field(ARRAY(STRING))
