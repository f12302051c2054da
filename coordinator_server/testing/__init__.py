"""A real broker for tests: runs as a subprocess, with helpers to control and query it.

    from coordinator_server.testing import Broker

    with Broker() as broker:
        broker.bootstrap_servers   # "127.0.0.1:PORT", for any Kafka client

This package runs in the user's process, so it uses only the light parts of the standard library.
The pytest fixtures are in `plugin`, which pytest loads by its entry point.
"""

from coordinator_server.testing.aio import AsyncClock
from coordinator_server.testing.broker import Broker
from coordinator_server.testing.clock import Clock, ClockState
from coordinator_server.testing.control import BrokerError, Control
from coordinator_server.testing.groups import GivenUp, Group, GroupMember, SharePartition
from coordinator_server.testing.helpers import WaitTimeout
from coordinator_server.testing.records import Record, TopicPartition

__all__ = [
    "AsyncClock",
    "Broker",
    "BrokerError",
    "Clock",
    "ClockState",
    "Control",
    "GivenUp",
    "Group",
    "GroupMember",
    "Record",
    "SharePartition",
    "TopicPartition",
    "WaitTimeout",
]
