"""Where replicas go. One broker holds everything today; requests may still name brokers.

Checks of manual assignments, with the texts of Kafka's ReplicationControlManager.
"""

from collections.abc import Sequence


def replicas_error(broker_ids: Sequence[int], brokers: frozenset[int]) -> str | None:
    """Why a partition cannot lie on these brokers; None when it can."""
    if not broker_ids:
        return "The manual partition assignment includes an empty replica list."
    previous: set[int] = set()
    for broker_id in sorted(broker_ids):
        if broker_id not in brokers:
            return (
                f"The manual partition assignment includes broker {broker_id}, "
                "but no such broker is registered."
            )
        if broker_id in previous:
            return (
                f"The manual partition assignment includes the broker {broker_id} more than once."
            )
        previous.add(broker_id)
    return None


def new_topic_error(
    assignments: Sequence[tuple[int, Sequence[int]]], brokers: frozenset[int]
) -> str | None:
    """Why a new topic cannot have these assignments of (partition, broker ids)."""
    partitions: set[int] = set()
    for partition, broker_ids in assignments:
        if partition in partitions:
            return f"Found multiple manual partition assignments for partition {partition}"
        partitions.add(partition)
        error = replicas_error(broker_ids, brokers)
        if error is not None:
            return error
    if sorted(partitions) != list(range(len(partitions))):
        return "partitions should be a consecutive 0-based integer sequence"
    return None


def more_partitions_error(
    assignments: Sequence[Sequence[int]], added: int, brokers: frozenset[int]
) -> str | None:
    """Why `added` partitions cannot be placed by `assignments`, one entry for each."""
    if len(assignments) != added:
        return (
            f"Attempted to add {added} additional partition(s), but only "
            f"{len(assignments)} assignment(s) were specified."
        )
    for broker_ids in assignments:
        error = replicas_error(broker_ids, brokers)
        if error is not None:
            return error
    return None
