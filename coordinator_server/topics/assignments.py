"""Checks of manual replica assignments, with the texts of Kafka's ReplicationControlManager.

The checks run in steps, because assignments may be long.
"""

from collections.abc import Collection, Generator, Iterable, Sequence

Check = Generator[None, None, str | None]


def replicas_error(placed: Iterable[Collection[int]], brokers: frozenset[int]) -> Check:
    """Return the error of the first invalid replica list in `placed`; None if all are valid."""
    for broker_ids in placed:
        if not broker_ids:
            return "The manual partition assignment includes an empty replica list."
        seen: set[int] = set()
        wrong: int | None = None
        for broker_id in broker_ids:
            if broker_id not in brokers or broker_id in seen:
                # Kafka checks broker ids in ascending order and reports the first wrong id.
                wrong = broker_id if wrong is None else min(broker_id, wrong)
            else:
                seen.add(broker_id)
            yield
        if wrong in brokers:
            return f"The manual partition assignment includes the broker {wrong} more than once."
        if wrong is not None:
            return (
                f"The manual partition assignment includes broker {wrong}, "
                "but no such broker is registered."
            )
        yield
    return None


def new_topic_error(
    assignments: Sequence[tuple[int, Collection[int]]], brokers: frozenset[int]
) -> Check:
    """Return the error of a new topic's (partition, broker ids) pairs; None if they are valid."""
    partitions: set[int] = set()
    for partition, broker_ids in assignments:
        if partition in partitions:
            return f"Found multiple manual partition assignments for partition {partition}"
        partitions.add(partition)
        error = yield from replicas_error([broker_ids], brokers)
        if error is not None:
            return error
    if partitions != set(range(len(partitions))):
        return "partitions should be a consecutive 0-based integer sequence"
    return None
