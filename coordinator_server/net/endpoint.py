"""Where a client finds a broker."""

from typing import NamedTuple


class BrokerEndpoint(NamedTuple):
    """A broker's id, its address for one client, its rack; `is_stopped` if it does not run."""

    node_id: int
    host: str
    port: int
    is_stopped: bool = False
    rack: str | None = None
