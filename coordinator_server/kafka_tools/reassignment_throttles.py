"""Throttles of reassignments: configs of the involved topics and brokers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from coordinator_server.client import Client
from coordinator_server.kafka_tools.config_requests import BROKER, TOPIC, alter_configs
from coordinator_server.kafka_tools.java import numbers_in_hash_order
from coordinator_server.kafka_tools.reassignment_files import Plan
from coordinator_server.kafka_tools.reassignments import Place, Reassignment, plural

_RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
MOVE_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
_LEADERS = "leader.replication.throttled.replicas"
_FOLLOWERS = "follower.replication.throttled.replicas"

Moves = dict[Place, tuple[set[int], set[int]]]
"""For each partition, the brokers to read from and the brokers to write to."""


def all_moves(
    running: Mapping[Place, Reassignment],
    wanted: Mapping[Place, Sequence[int]],
    current: Mapping[Place, Sequence[int]],
) -> Moves:
    """Return the moves of running reassignments and of the wanted ones."""
    moves = {
        one: (set(found.replicas) - set(found.adding), set(found.adding))
        for one, found in running.items()
    }
    for one, replicas in wanted.items():
        sources = moves[one][0] if one in moves else set(current[one])
        moves[one] = sources, set(replicas) - sources
    return moves


def throttle_replicas(client: Client, moves: Moves, rate: int) -> None:
    """Throttle the replicas that move. Raises ClientError."""
    sides: dict[str, tuple[list[str], list[str]]] = {}
    for (topic, index), brokers_of_sides in moves.items():
        listed = sides.setdefault(topic, ([], []))
        for side, brokers in zip(listed, brokers_of_sides, strict=True):
            side += [f"{index}:{broker}" for broker in brokers]
    topics = {
        topic: [(_LEADERS, ",".join(sorted(leaders))), (_FOLLOWERS, ",".join(sorted(followers)))]
        for topic, (leaders, followers) in sides.items()
    }
    alter_configs(client, TOPIC, topics)
    moving = {broker for both in moves.values() for brokers in both for broker in brokers}
    set_rates(client, moving, rate, *_RATES)
    print(f"The inter-broker throttle limit was set to {rate} B/s")


def set_rates(client: Client, brokers: Iterable[int], rate: int | None, *names: str) -> None:
    """Set throttle rates of brokers; None removes the limit. Raises ClientError."""
    value = None if rate is None else str(rate)
    changes = [(name, value) for name in names]
    alter_configs(
        client, BROKER, {str(broker): changes for broker in numbers_in_hash_order(brokers)}
    )


def clear_throttles(client: Client, plan: Plan) -> None:
    """Remove the throttles of all brokers and of the topics of a plan. Raises ClientError."""
    nodes = client.call("listNodes", lambda: client.metadata([])).brokers
    brokers = {node.node_id for node in nodes}
    brokers.update(broker for _, replicas in plan.partitions for broker in replicas)
    named = ",".join(map(str, numbers_in_hash_order(brokers)))
    print(f"Clearing broker-level throttles on broker{plural(brokers)} {named}")
    set_rates(client, brokers, None, *_RATES, MOVE_RATE)
    topics = plan.topics
    print(f"Clearing topic-level throttles on topic{plural(topics)} {','.join(topics)}")
    changes = [(_LEADERS, None), (_FOLLOWERS, None)]
    alter_configs(client, TOPIC, dict.fromkeys(topics, changes))
