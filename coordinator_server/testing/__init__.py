"""A real broker for tests: a subprocess, and the helpers by which tests control and query it.

    from coordinator_server.testing import Broker

    with Broker() as broker:
        broker.bootstrap_servers   # "127.0.0.1:PORT", for any Kafka client

All of this runs in the user's process: standard library only, and nothing heavy of that. The
fixtures for pytest are in `plugin`, which pytest finds by itself.
"""

from coordinator_server.testing.broker import Broker
from coordinator_server.testing.clock import AsyncClock, Clock, ClockState
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
