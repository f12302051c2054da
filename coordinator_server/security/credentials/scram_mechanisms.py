"""SCRAM mechanisms, and the computations of both brokers and clients (RFC 5802, RFC 7677)."""

from __future__ import annotations

import hashlib
import hmac
from typing import NamedTuple

MAX_ITERATIONS = 16_384
"""The largest iteration count that a broker accepts (Kafka's ScramMechanism)."""


class ScramMechanism(NamedTuple):
    """A SCRAM mechanism: `type_id` is its number in the APIs, `hash_name` its name in hashlib."""

    name: str
    type_id: int
    hash_name: str
    min_iterations: int

    def hmac(self, key: bytes, data: bytes) -> bytes:
        """Return the HMAC of the data."""
        return hmac.digest(key, data, self.hash_name)

    def hash(self, data: bytes) -> bytes:
        """Return the hash of the data."""
        return hashlib.new(self.hash_name, data).digest()

    def salted_password(self, password: str, salt: bytes, iterations: int) -> bytes:
        """Return the SaltedPassword of RFC 5802. The computation takes milliseconds."""
        return hashlib.pbkdf2_hmac(self.hash_name, password.encode(), salt, iterations)


SHA_256 = ScramMechanism("SCRAM-SHA-256", 1, "sha256", 4096)
SHA_512 = ScramMechanism("SCRAM-SHA-512", 2, "sha512", 4096)
SCRAM_BY_NAME = {mechanism.name: mechanism for mechanism in (SHA_256, SHA_512)}
SCRAM_BY_TYPE = {mechanism.type_id: mechanism for mechanism in (SHA_256, SHA_512)}
