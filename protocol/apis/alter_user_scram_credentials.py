"""AlterUserScramCredentials (key 51): sets and deletes credentials (KIP-554). Version 0, flexible.

The password itself is never sent: the client salts and hashes it.
"""

from __future__ import annotations

from protocol.schema import ARRAY, BYTES, INT8, INT16, INT32, STRING, Message, field


class ScramCredentialDeletion(Message):
    """A credential to delete: mechanism 1 is SCRAM-SHA-256, 2 is SCRAM-SHA-512."""

    name: str = field(STRING)
    mechanism: int = field(INT8)


class ScramCredentialUpsertion(Message):
    """A credential to set."""

    name: str = field(STRING)
    mechanism: int = field(INT8)
    iterations: int = field(INT32)
    salt: bytes = field(BYTES)
    salted_password: bytes = field(BYTES)


class AlterUserScramCredentialsRequest(Message, versions=(0, 0), flexible_since=0):
    """The credentials to delete and to set."""

    deletions: list[ScramCredentialDeletion] = field(ARRAY(ScramCredentialDeletion))
    upsertions: list[ScramCredentialUpsertion] = field(ARRAY(ScramCredentialUpsertion))


class AlterUserScramCredentialsResult(Message):
    """One user's result."""

    user: str = field(STRING)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable_since=0)


class AlterUserScramCredentialsResponse(Message, versions=(0, 0), flexible_since=0):
    """One result per user."""

    throttle_time_ms: int = field(INT32)
    results: list[AlterUserScramCredentialsResult] = field(ARRAY(AlterUserScramCredentialsResult))
