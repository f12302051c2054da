"""Control requests about the cluster and its brokers.

A group moves with its partition of `__consumer_offsets`, together with all groups of this
partition.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from coordinator_server import __version__, cluster_reset
from coordinator_server.control.pace import in_steps
from coordinator_server.control.request import ControlError, ControlRequest, natural_number
from coordinator_server.control.topics import partition_of, topic_of
from coordinator_server.net.acceptor import StartError
from coordinator_server.topics.names import OFFSETS_TOPIC
from protocol import REFERENCE_VERSION
from protocol.errors import ErrorCode
from storage.errors import StorageError

if TYPE_CHECKING:
    from coordinator_server.cluster import Cluster
    from coordinator_server.config.config import Listener
    from coordinator_server.steps import Computation
    from coordinator_server.topics.topic import Partition, Topic


_OPEN = "allow.everyone.if.no.acl.found"


async def cluster(request: ControlRequest) -> dict[str, Any]:
    """GET /cluster: describe the cluster as a whole.

    As in Kafka, every user may know the cluster id, the brokers and the controller (Metadata,
    DescribeCluster); the data directory needs DESCRIBE on the cluster (DescribeLogDirs).
    """
    its, state = request.cluster, request.state
    assert state is not None
    leaders, authorizer = await in_steps(_leaders(its)), its.security.authorizer
    may_describe = request.allows("DESCRIBE", "CLUSTER", "kafka-cluster")
    return {
        "cluster_id": its.cluster_id,
        "version": __version__,
        "kafka_version": REFERENCE_VERSION,
        "controller": its.brokers.controller_id,
        "brokers": len(its.node_ids),
        "running": len(its.brokers),
        "offline_partitions": leaders[-1],
        "counts": {
            **await in_steps(_counts(request)),
            "connections": (
                sum(map(its.servers.connection_count, its.node_ids)) if may_describe else 0
            ),
        },
        "security": {
            "has_authorizer": authorizer is not None,
            "has_acls": bool(authorizer),
            "allows_without_acl": authorizer is None or its.config.boolean(_OPEN),
            "user": None if request.user is None else request.user.name,
            "requires_login": state.options.requires_login,
            "is_read_only": state.options.is_read_only,
        },
        "started_at_ms": state.started_at_ms,
        "now_ms": its.clock.now_ms(),
        "data_directory": its.topics.volume()[0] if may_describe else None,
        "is_ephemeral": its.config.ephemeral,
    }


def _counts(request: ControlRequest) -> Computation[dict[str, int | None]]:
    """Return the numbers of what the user may describe, in steps.

    While no broker runs, the numbers of groups and transactions are not known: they are None.
    """
    its = request.cluster
    of_coordinators = None if not its.brokers else 0
    counts: dict[str, Any] = {"topics": 0, "partitions": 0}
    counts |= dict.fromkeys(("groups", "transactions", "open_transactions"), of_coordinators)
    for topic in tuple(its.topics.all_topics()):
        if request.sees_topic(topic.name):
            counts["topics"] += 1
            counts["partitions"] += len(topic.partitions)
        yield
    for broker in tuple(its.brokers.values()):
        for group_id in tuple(broker.groups.tasks):
            counts["groups"] += request.sees_group(group_id)
            yield
        for name, entry in tuple(broker.transactions.ids.items()):
            if request.allows("DESCRIBE", "TRANSACTIONAL_ID", name):
                counts["transactions"] += 1
                counts["open_transactions"] += not entry.metadata.state.is_idle
            yield
    return counts


def _leaders(its: Cluster) -> Computation[Counter[int]]:
    """Return the number of partitions by leader, in steps."""
    leaders: Counter[int] = Counter()
    for topic in tuple(its.topics.all_topics()):
        leaders.update(partition.leader_id for partition in topic.partitions)
        yield
    return leaders


async def brokers(request: ControlRequest) -> dict[str, Any]:
    """GET /brokers: list the brokers."""
    its = request.cluster
    leaders = await in_steps(_leaders(its))
    return {
        "cluster_id": its.cluster_id,
        "data_directory": its.topics.volume()[0],
        "controller": its.brokers.controller_id,
        "brokers": [_broker(its, node_id, leaders) for node_id in its.node_ids],
        "offline_partitions": leaders[-1],
    }


def _broker(its: Cluster, node_id: int, leaders: Counter[int]) -> dict[str, Any]:
    broker, listeners = its.brokers.get(node_id), its.servers.addresses(node_id)
    return {
        "id": node_id,
        "state": "stopped" if broker is None else "running",
        "listeners": [str(listener) for listener in listeners],
        "endpoints": [_endpoint(its, listener) for listener in listeners],
        "rack": its.topics.racks.get(node_id),
        "partitions_led": leaders[node_id],
        "groups": 0 if broker is None else len(broker.groups.tasks),
        "connections": its.servers.connection_count(node_id),
    }


def _endpoint(its: Cluster, listener: Listener) -> dict[str, Any]:
    """Describe how to connect to a listener."""
    protocol, own = (
        its.config.security_protocol(listener.name),
        its.config.of_listener(listener.name),
    )
    return {
        "name": listener.name,
        "protocol": protocol.name,
        "address": listener.address,
        "mechanisms": own.items("sasl.enabled.mechanisms") if protocol.uses_sasl else [],
    }


async def stop(request: ControlRequest) -> dict[str, Any]:
    """POST /brokers/ID/stop: stop a broker. Raises ControlError."""
    node_id = broker_id(request.cluster, request.parameters["ID"])
    await request.cluster.stop_broker(node_id)
    return await brokers(request)


async def start(request: ControlRequest) -> dict[str, Any]:
    """POST /brokers/ID/start: start a stopped broker. Raises ControlError."""
    node_id = broker_id(request.cluster, request.parameters["ID"])
    try:
        await request.cluster.start_broker(node_id)
    except StartError as error:
        raise ControlError(500, f"broker {node_id} cannot start: {error}") from error
    return await brokers(request)


async def move(request: ControlRequest) -> dict[str, Any]:
    """POST /partitions/TOPIC/INDEX/move: move a partition's leadership. Raises ControlError."""
    topic = topic_of(request)
    return _moved(request, topic, partition_of(request, topic))


async def move_group(request: ControlRequest) -> dict[str, Any]:
    """POST /groups/GROUP/move: move a group to another coordinator. Raises ControlError."""
    cluster, group_id = request.cluster, request.parameters["GROUP"]
    _running_broker(request)
    if cluster.offsets_topic.ensure() is not ErrorCode.NONE:
        raise ControlError(500, f"{OFFSETS_TOPIC} cannot be created")
    topic = cluster.topics.topic(OFFSETS_TOPIC)
    assert topic is not None
    partition = cluster.offsets_topic.partition_of(group_id)
    return {"group": group_id, **_moved(request, topic, partition)}


def _moved(request: ControlRequest, topic: Topic, partition: Partition) -> dict[str, Any]:
    request.cluster.move(topic, partition, _running_broker(request))
    return {
        "topic": topic.name,
        "partition": partition.index,
        "leader": partition.leader_id,
        "leader_epoch": partition.known_epoch,
        "replicas": list(partition.replicas),
    }


def _running_broker(request: ControlRequest) -> int:
    node_id = broker_id(request.cluster, request.values["to"])
    if node_id not in request.cluster.brokers:
        raise ControlError(400, f"broker {node_id} is stopped")
    return node_id


def broker_id(cluster: Cluster, text: str) -> int:
    """Return the node id in a text. Raises ControlError if there is no such broker."""
    node_id = natural_number(text)
    if node_id is None:
        raise ControlError(400, f"{text!r} is not the id of a broker")
    if node_id not in cluster.node_ids:
        known = ", ".join(map(str, cluster.node_ids))
        raise ControlError(404, f"there is no broker {text}, but {known}")
    return node_id


async def reset(request: ControlRequest) -> dict[str, Any]:
    """POST /reset: remove all topics, groups and connections, as after the first start.

    With move=true the brokers move to other ports. The response has the addresses of each broker in
    `listeners`. Raises ControlError.
    """
    cluster = request.cluster
    try:
        counts = await cluster_reset.reset(cluster, moves=request.values["move"], **request.asker)
    except StorageError as error:
        raise ControlError(500, f"not everything could be deleted: {error}") from error
    except StartError as error:
        raise ControlError(500, f"the brokers cannot move: {error}") from error
    return {**counts, "listeners": listeners_of(cluster)}


def listeners_of(cluster: Cluster) -> list[list[str]]:
    """Return the addresses of each broker."""
    return [
        [str(listener) for listener in cluster.servers.addresses(node_id)]
        for node_id in cluster.node_ids
    ]
