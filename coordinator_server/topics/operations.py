"""What a client may do, as bit sets for the authorized-operations fields (KIP-430).

There is no authorizer, so everything that exists for a resource is allowed: the numbers are those
of Kafka without an authorizer. They are answered only when asked for.
"""

_READ, _WRITE, _CREATE, _DELETE, _ALTER, _DESCRIBE = (1 << n for n in range(3, 9))
_CLUSTER_ACTION, _DESCRIBE_CONFIGS, _ALTER_CONFIGS, _IDEMPOTENT_WRITE = (
    1 << n for n in range(9, 13)
)

TOPIC_OPERATIONS = (
    _READ | _WRITE | _CREATE | _DELETE | _ALTER | _DESCRIBE | _DESCRIBE_CONFIGS | _ALTER_CONFIGS
)
CLUSTER_OPERATIONS = (
    _CREATE
    | _ALTER
    | _DESCRIBE
    | _CLUSTER_ACTION
    | _DESCRIBE_CONFIGS
    | _ALTER_CONFIGS
    | _IDEMPOTENT_WRITE
)
NOT_ASKED = -(2**31)
"""What an answer has when the request did not ask for the operations."""
