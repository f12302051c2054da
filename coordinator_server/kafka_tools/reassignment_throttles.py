"""Throttles of reassignments: configs of the topics and of the brokers that take part."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from coordinator_server.client import Client
from coordinator_server.kafka_tools.configs_alter import Changes, alter_configs
from coordinator_server.kafka_tools.configs_read import BROKER, TOPIC
from coordinator_server.kafka_tools.java import numbers_in_hash_order
from coordinator_server.kafka_tools.reassignment_files import Plan
from coordinator_server.kafka_tools.reassignments import Place, Reassignment, plural

_RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
MOVE_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
_LEADERS = "leader.replication.throttled.replicas"
_FOLLOWERS = "follower.replication.throttled.replicas"

Moves = dict[Place, tuple[set[int], set[int]]]
"""The brokers that a partition is read from and those that it is written to."""


def all_moves(
    running: Mapping[Place, Reassignment],
    wanted: Mapping[Place, Sequence[int]],
    current: Mapping[Place, Sequence[int]],
) -> Moves:
    """Return the moves of the running reassignments and of those that are wanted."""
    moves = {
        one: (set(found.replicas) - set(found.adding), set(found.adding))
        for one, found in running.items()
    }
    for one, replicas in wanted.items():
        sources = moves[one][0] if one in moves else set(current[one])
        moves[one] = sources, set(replicas) - sources
    return moves


def throttle_replicas(client: Client, moves: Moves, rate: int) -> None:
    """Limit the rate of the replicas that move. Raises ClientError."""
    topics: dict[str, Changes] = {}
    for topic in {topic for topic, _ in moves}:
        leaders, followers = (
            sorted(
                f"{index}:{broker}"
                for (name, index), brokers in moves.items()
                if name == topic
                for broker in brokers[side]
            )
            for side in (0, 1)
        )
        topics[topic] = [(_LEADERS, ",".join(leaders)), (_FOLLOWERS, ",".join(followers))]
    alter_configs(client, TOPIC, topics)
    brokers = {broker for sides in moves.values() for side in sides for broker in side}
    set_rates(client, brokers, rate, *_RATES)
    print(f"The inter-broker throttle limit was set to {rate} B/s")


def set_rates(client: Client, brokers: Iterable[int], rate: int | None, *names: str) -> None:
    """Set rates of brokers, None for no limit. Raises ClientError."""
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
