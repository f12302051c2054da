"""The Kafka client of the tools: small, blocking, with only the standard library and `protocol`.

The client works with Kafka 2.8 and newer; versions are negotiated per broker.

    client = Client("one:9092,other:9092", read_settings(properties), warn=warn)
    answer = client.call("listTopics", lambda: client.metadata(None))       # retried till timeout
    node_id = client.call("describeGroup", lambda: client.coordinator("my-group"))
    answer = client.ask(DescribeGroupsRequest(groups=["my-group"]), node_id)  # one attempt
    answer = client.ask_controller("createTopics", CreateTopicsRequest(...))
    by_leader = client.leaders([("t", 0), ("t", 1)])      # {node id: [("t", 0), ...]}
    connection = client.open_connection(node_id)          # a separate one, for long waits
    connection.ask(JoinGroupRequest(...), max_version=9, timeout_ms=330_000)
    client.close()

Requests and responses are the messages of `protocol.apis`; a response is typed `Any`. All
functions raise only `ClientError`, with `.code` (an ErrorCode) and Kafka's text as its message.
`ask`, `metadata`, `leaders` and `coordinator` make one attempt each. To retry while brokers start,
move or fail, pass a function to `call`, which repeats it after retriable errors. Errors inside a
response are left there; `check(code, message)` raises them. Import message classes inside the
functions that use them, because a script must finish within 0.3 s.
"""

from coordinator_server.client.client import Client, Lookup
from coordinator_server.client.connection import ClientConnection
from coordinator_server.client.errors import (
    ClientError,
    SaslError,
    TlsError,
    UnsupportedSettingError,
    check,
)
from coordinator_server.client.settings import (
    Address,
    ClientSettings,
    parse_addresses,
    read_settings,
)

__all__ = [
    "Address",
    "Client",
    "ClientConnection",
    "ClientError",
    "ClientSettings",
    "Lookup",
    "SaslError",
    "TlsError",
    "UnsupportedSettingError",
    "check",
    "parse_addresses",
    "read_settings",
]
