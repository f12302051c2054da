"""A SCRAM client that logs in very often: the salted password is computed only once."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from functools import cache
from typing import NamedTuple, Self


class ServerFirst(NamedTuple):
    """The server's first message of a SCRAM exchange."""

    text: str
    nonce: str
    salt: bytes
    iterations: int

    @classmethod
    def found_in(cls, answer: bytes) -> Self | None:
        """Parse the server's first message in a response; return None if the response has none."""
        match = re.search(rb"r=([!-+\--~]+),s=([A-Za-z0-9+/=]+),i=([0-9]+)", answer)
        if match is None:
            return None
        nonce, salt, iterations = match.groups()
        text = match.group().decode()
        return cls(text, nonce.decode(), base64.b64decode(salt), int(iterations))


@cache
def _salted(algorithm: str, password: str, salt: bytes, iterations: int) -> bytes:
    return hashlib.pbkdf2_hmac(algorithm, password.encode(), salt, iterations)


def final_message(algorithm: str, password: str, bare: str, first: ServerFirst) -> bytes:
    """Return the client's final message; `bare` is its first message without the GS2 header."""
    salted = _salted(algorithm, password, first.salt, first.iterations)
    without_proof = f"c=biws,r={first.nonce}"
    signed = f"{bare},{first.text},{without_proof}".encode()
    client_key = hmac.digest(salted, b"Client Key", algorithm)
    stored_key = hashlib.new(algorithm, client_key).digest()
    signature = hmac.digest(stored_key, signed, algorithm)
    proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
    return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()
