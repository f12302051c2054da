"""The address of a broker for a client."""

from typing import NamedTuple


class BrokerEndpoint(NamedTuple):
    """A broker's id, its address for one client and its rack; `is_stopped` if it is not running."""

    node_id: int
    host: str
    port: int
    is_stopped: bool = False
    rack: str | None = None
