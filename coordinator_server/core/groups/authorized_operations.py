"""The authorized operations in descriptions of groups (KIP-430)."""

NOT_REQUESTED = -(2**31)
"""The value in responses to requests that did not ask for the operations."""
