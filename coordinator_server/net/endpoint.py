"""Where a client finds a broker."""

from typing import NamedTuple


class Endpoint(NamedTuple):
    """A broker's id, and its address for one client; `is_stopped` if it does not run."""

    node_id: int
    host: str
    port: int
    is_stopped: bool = False
