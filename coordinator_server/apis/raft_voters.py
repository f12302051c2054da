"""Errors of AddRaftVoter and RemoveRaftVoter: the quorum always has one voter.

The errors are those of a Kafka cluster whose voters are static, that is, named in
`controller.quorum.voters` (kraft.version 0).

Source: Kafka's KafkaRaftClient, AddVoterHandler and RemoveVoterHandler.
"""

from __future__ import annotations

from protocol.errors import ErrorCode
from protocol.schema import ZERO_UUID

Error = tuple[ErrorCode, str]


def cluster_error(given: str | None, cluster_id: str) -> Error | None:
    """Return the error of a request for another cluster, or None."""
    if given is None or given == cluster_id:
        return None
    text = f'The given id "{given}" doesn\'t match the cluster id "{cluster_id}"'
    return ErrorCode.INCONSISTENT_CLUSTER_ID, text


def is_voter(voter_id: int, directory_id: bytes) -> bool:
    """Return whether id and directory id are valid for a voter."""
    return voter_id >= 0 and directory_id != ZERO_UUID


def fixed(change: str) -> Error:
    """Return the error for a valid request; the text names the `change`, "adding" or "removing"."""
    text = f"Cluster doesn't support {change} voter because the kraft.version feature is 0"
    return ErrorCode.UNSUPPORTED_VERSION, text
