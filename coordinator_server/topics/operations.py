"""Bit sets of all operations of a resource, for the authorized-operations fields (KIP-430).

Responses contain these sets while no authorizer is configured. With `authorizer.class.name` set,
`security.rights` returns the operations that the principal is allowed instead.
"""

_READ, _WRITE, _CREATE, _DELETE, _ALTER, _DESCRIBE = (1 << n for n in range(3, 9))
_CLUSTER_ACTION, _DESCRIBE_CONFIGS, _ALTER_CONFIGS, _IDEMPOTENT_WRITE = (
    1 << n for n in range(9, 13)
)

TOPIC_OPERATIONS = (
    _READ | _WRITE | _CREATE | _DELETE | _ALTER | _DESCRIBE | _DESCRIBE_CONFIGS | _ALTER_CONFIGS
)
GROUP_OPERATIONS = _READ | _DELETE | _DESCRIBE | _DESCRIBE_CONFIGS | _ALTER_CONFIGS
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
"""The value in responses to requests that did not ask for the operations."""
