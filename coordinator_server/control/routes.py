"""What can be done to the running cluster from outside, as one table of routes.

    GET  /brokers                               the brokers, and what each of them leads
    POST /brokers/ID/stop                       as a controlled shutdown
    POST /brokers/ID/start                      at the ports that it had
    POST /partitions/TOPIC/INDEX/move?to=ID     another broker leads the partition
    POST /groups/GROUP/move?to=ID               another broker coordinates the group
    GET  /topics, /topics/TOPIC                 topics with configs and offsets (`data`)
    POST /topics/TOPIC                          create one
    POST /topics/TOPIC/records                  write records
    GET  /partitions/TOPIC/INDEX/records        read records
    GET  /groups, /groups/GROUP                 groups (`groups`)
    POST /reset?move=true                       as if it had just been started; elsewhere
    GET  /clock                                 what time it is (`clock`)
    POST /clock/advance?seconds=N               time goes on by so much, at once
    POST /clock/freeze                          time stands
    POST /clock/resume                          time goes on

A group moves with its partition of `__consumer_offsets`, and so do the other groups in it.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from coordinator_server.control import clock, data, groups
from coordinator_server.control.request import ControlError, Order, Route
from coordinator_server.server import StartError
from coordinator_server.topics.names import OFFSETS_TOPIC
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator_server.cluster import Cluster
    from coordinator_server.topics.manager import Partition, Topic


async def _brokers(order: Order) -> dict[str, Any]:
    cluster = order.cluster
    leaders = Counter(
        partition.leader_id
        for topic in cluster.topics.all_topics()
        for partition in topic.partitions
    )
    return {
        "cluster_id": cluster.cluster_id,
        "data_directory": cluster.topics.volume()[0],
        "controller": cluster.controller_id,
        "brokers": [_broker(cluster, node_id, leaders) for node_id in cluster.node_ids],
        "offline_partitions": leaders[-1],
    }


def _broker(cluster: Cluster, node_id: int, leaders: Counter[int]) -> dict[str, Any]:
    broker = cluster.brokers.get(node_id)
    return {
        "id": node_id,
        "state": "stopped" if broker is None else "running",
        "listeners": [str(listener) for listener in cluster.addresses(node_id)],
        "partitions_led": leaders[node_id],
        "groups": 0 if broker is None else len(broker.groups.tasks),
        "connections": cluster.connection_count(node_id),
    }


async def _stop(order: Order) -> dict[str, Any]:
    node_id = _broker_id(order.cluster, order.parameters["ID"])
    await order.cluster.stop_broker(node_id)
    return await _brokers(order)


async def _start(order: Order) -> dict[str, Any]:
    node_id = _broker_id(order.cluster, order.parameters["ID"])
    try:
        await order.cluster.start_broker(node_id)
    except StartError as error:
        raise ControlError(500, f"broker {node_id} cannot start: {error}") from error
    return await _brokers(order)


async def _move(order: Order) -> dict[str, Any]:
    topic = data.topic_of(order)
    return _moved(order, topic, data.partition_of(order, topic))


async def _move_group(order: Order) -> dict[str, Any]:
    cluster, group_id = order.cluster, order.parameters["GROUP"]
    _running_broker(order)
    if cluster.offsets_topic.ensure() is not ErrorCode.NONE:
        raise ControlError(500, f"{OFFSETS_TOPIC} cannot be created")
    topic = cluster.topics.topic(OFFSETS_TOPIC)
    assert topic is not None
    partition = cluster.offsets_topic.partition_of(group_id)
    return {"group": group_id, **_moved(order, topic, partition)}


def _moved(order: Order, topic: Topic, partition: Partition) -> dict[str, Any]:
    order.cluster.move(topic, partition, _running_broker(order))
    return {
        "topic": topic.name,
        "partition": partition.index,
        "leader": partition.leader_id,
        "leader_epoch": partition.known_epoch,
        "replicas": list(partition.replicas),
    }


def _running_broker(order: Order) -> int:
    if "to" not in order.query:
        raise ControlError(400, "to=ID is missing: the broker to move to")
    node_id = _broker_id(order.cluster, order.query["to"])
    if node_id not in order.cluster.brokers:
        raise ControlError(400, f"broker {node_id} is stopped")
    return node_id


def _broker_id(cluster: Cluster, text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise ControlError(400, f"{text!r} is not the id of a broker")
    if int(text) not in cluster.node_ids:
        known = ", ".join(map(str, cluster.node_ids))
        raise ControlError(404, f"there is no broker {text}, but {known}")
    return int(text)


ROUTES: tuple[Route, ...] = (
    Route("GET", "/brokers", _brokers),
    Route("POST", "/brokers/ID/stop", _stop),
    Route("POST", "/brokers/ID/start", _start),
    Route("POST", "/partitions/TOPIC/INDEX/move", _move),
    Route("POST", "/groups/GROUP/move", _move_group),
    Route("GET", "/topics", data.topics),
    Route("GET", "/topics/TOPIC", data.topic),
    Route("POST", "/topics/TOPIC", data.create_topic),
    Route("POST", "/topics/TOPIC/records", data.produce),
    Route("GET", "/partitions/TOPIC/INDEX/records", data.records),
    Route("GET", "/groups", groups.groups),
    Route("GET", "/groups/GROUP", groups.group),
    Route("POST", "/reset", data.reset),
    Route("GET", "/clock", clock.state),
    Route("POST", "/clock/advance", clock.advance),
    Route("POST", "/clock/freeze", clock.freeze),
    Route("POST", "/clock/resume", clock.resume),
)
"""Everything that the control server serves."""
