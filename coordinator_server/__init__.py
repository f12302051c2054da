"""A Kafka broker without a JVM: sockets, dispatch, topics and the group coordinator.

Kept empty of imports on purpose: `coordinator_server.testing` runs inside the user's process and
must not pull the broker in with it.
"""

__version__ = "0.1.0"
