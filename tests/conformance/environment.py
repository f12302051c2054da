"""The broker that scenarios talk to, and the topics that they share."""

from __future__ import annotations

import uuid
from typing import Any


class Environment:
    """Address, run id and shared topics of one run against one broker or cluster.

    Names of topics and groups contain the run id, so that every run uses new names.
    """

    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port
        self.run = uuid.uuid4().hex[:6]
        self.t1 = f"cf-one-{self.run}"
        self.t3 = f"cf-three-{self.run}"
        self.tx = f"cf-other-{self.run}"
        self.topic_symbols = {self.t1: "<t1>", self.t3: "<t3>", self.tx: "<tx>"}
        self.topic_ids: dict[bytes, str] = {}
        self.brokers: set[tuple[int, str, int]] = set()
        self.cluster: Any = None
        self.prepared: set[str] = set()  # preparations that scenarios have already done
