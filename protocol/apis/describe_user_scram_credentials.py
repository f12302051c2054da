"""DescribeUserScramCredentials (key 50): lists credentials (KIP-554). Version 0, flexible."""

from __future__ import annotations

from protocol.schema import ARRAY, INT8, INT16, INT32, STRING, Message, field


class ScramUserName(Message):
    """A user to describe."""

    name: str = field(STRING)


class DescribeUserScramCredentialsRequest(Message, versions=(0, 0), flexible_since=0):
    """The users to describe; null or an empty list means all."""

    users: list[ScramUserName] | None = field(ARRAY(ScramUserName), nullable_since=0)


class CredentialInfo(Message):
    """A credential: mechanism 1 SCRAM-SHA-256, 2 SCRAM-SHA-512."""

    mechanism: int = field(INT8)
    iterations: int = field(INT32)


class DescribeUserScramCredentialsResult(Message):
    """One user's credentials, or an error."""

    user: str = field(STRING)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable_since=0)
    credential_infos: list[CredentialInfo] = field(ARRAY(CredentialInfo))


class DescribeUserScramCredentialsResponse(Message, versions=(0, 0), flexible_since=0):
    """One result per user."""

    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable_since=0)
    results: list[DescribeUserScramCredentialsResult] = field(
        ARRAY(DescribeUserScramCredentialsResult)
    )
