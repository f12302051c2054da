"""Where a client finds a broker."""

from typing import NamedTuple


class Endpoint(NamedTuple):
    """A broker's id, and its address as one client is told it; `is_stopped` if nobody is there."""

    node_id: int
    host: str
    port: int
    is_stopped: bool = False
