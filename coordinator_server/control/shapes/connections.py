"""Client connections."""

from __future__ import annotations

from typing import Annotated, TypedDict


class ApiUse(TypedDict):
    """The requests of a connection to one API at one version."""

    api: Annotated[str, "name of the API"]
    version: Annotated[int, "version of the API"]
    requests: Annotated[int, "number of requests, with the one in progress"]
    errors: Annotated[int, "error codes in responses; a response may have one per partition"]
    last_error: Annotated[str | None, "name of the last error code"]


class Connection(TypedDict):
    """A connection of a client. Requests of a SASL handshake are not counted."""

    id: Annotated[int, "number of the connection, unique in this process"]
    broker: Annotated[int, "node id"]
    listener: Annotated[str, "name of the listener"]
    remote: Annotated[str, "the client's HOST:PORT"]
    client_id: Annotated[str | None, "client id of the last request"]
    software_name: Annotated[str, "name of the client library (KIP-511)"]
    software_version: Annotated[str, "version of the client library"]
    principal: Annotated[str, "principal, such as User:alice"]
    connected_at_ms: Annotated[int, "when the connection was opened, by the machine's clock"]
    closed_at_ms: Annotated[int | None, "when it was closed, null while it is open"]
    age_ms: Annotated[int, "how long the connection has been open, or was"]
    last_request_at_ms: Annotated[int | None, "when the last request arrived"]
    requests: Annotated[int, "number of requests, with the one in progress"]
    errors: Annotated[int, "error codes in responses; a response may have one per partition"]
    bytes_in: Annotated[int, "bytes of the requests"]
    bytes_out: Annotated[int, "bytes of the responses"]
    apis: Annotated[list[ApiUse], "use by API"]
    topics_written: Annotated[list[str], "topics that the client has produced to, at most 20"]
    topics_read: Annotated[list[str], "topics that the client has fetched from, at most 20"]


class Connections(TypedDict):
    """A page of connections, by number."""

    connections: Annotated[list[Connection], "the connections"]
    next: Annotated[str | None, "the value of `after` for the next page; null on the last page"]


class ConnectionClosed(TypedDict):
    """A connection that was closed."""

    id: Annotated[int, "number of the connection"]
    remote: Annotated[str, "the client's HOST:PORT"]
