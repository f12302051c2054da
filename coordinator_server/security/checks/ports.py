"""Protocols: the attributes of a broker and of a request that the checks use."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Protocol

from coordinator_server.security.access import PeerConnection

if TYPE_CHECKING:
    from coordinator_server.config.config import Config
    from coordinator_server.core.caller import Caller
    from coordinator_server.security.rights import Rights
    from coordinator_server.topics.manager import TopicManager
    from protocol.errors import ErrorCode
    from protocol.schema import Message


class CheckedBroker(Protocol):
    """The broker that serves a request."""

    @property
    def config(self) -> Config:
        """The settings of the broker."""

    @property
    def topics(self) -> TopicManager:
        """The topics of the cluster."""


class CheckedConnection(PeerConnection, Protocol):
    """The connection of a client."""

    def refuse(self, reason: str, api: str | None = None, version: int | None = None) -> None:
        """Close the connection and log the reason."""


class CheckedCall(Protocol):
    """A request in progress."""

    caller: Caller
    rights: Rights

    @property
    def api_name(self) -> str:
        """Kafka's name of the API."""

    @property
    def api_version(self) -> int:
        """The version of the request and its response."""

    @property
    def connection(self) -> CheckedConnection:
        """The connection of the client."""

    @property
    def is_large(self) -> bool:
        """Whether all work must be done in steps."""

    def reply(self, response: Message) -> None:
        """Send the response."""

    def reply_nothing(self) -> None:
        """End the request without a response."""

    def refuse(self, error: ErrorCode, message: str | None = None) -> None:
        """Send an error in the API's response format."""

    def error_response(
        self, error: ErrorCode, message: str | None = None
    ) -> Generator[None, None, Message | None]:
        """Return the error in the API's response format, in steps; None without an error field."""

    def reply_with(self, answer: Generator[None, None, Message | None]) -> None:
        """Send the response that the steps return, or close the connection if it is None."""
