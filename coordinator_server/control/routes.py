"""The table of routes of the control server.

    GET  /brokers                               list brokers and the partitions that they lead
    POST /brokers/ID/stop                       stop a broker as in a controlled shutdown
    POST /brokers/ID/start                      start a broker on its previous ports
    POST /partitions/TOPIC/INDEX/move?to=ID     move the leadership of a partition
    POST /groups/GROUP/move?to=ID               move a group to another coordinator
    GET  /topics, /topics/TOPIC                 list topics with configs and offsets (`data`)
    POST /topics/TOPIC                          create a topic
    POST /topics/TOPIC/records                  write records
    GET  /partitions/TOPIC/INDEX/records        read records
    GET  /groups, /groups/GROUP                 list or describe groups (`groups`)
    GET  /transactions                          list transactions (`transactions`)
    GET  /telemetry, /telemetry/CLIENT          show pushed client metrics (`telemetry`)
    POST /reset?move=true                       reset the cluster; move=true: to other ports
    GET  /clock                                 show the broker's time (`clock`)
    POST /clock/advance?seconds=N               advance the time by N seconds
    POST /clock/freeze                          stop the time
    POST /clock/resume                          let the time run again

A group moves with its partition of `__consumer_offsets`, together with all groups of this
partition. GET routes also answer HEAD.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from coordinator_server.control import clock, data, groups, telemetry, transactions
from coordinator_server.control.request import (
    ControlError,
    ControlRequest,
    ControlRoute,
    natural_number,
)
from coordinator_server.net.acceptor import StartError
from coordinator_server.topics.names import OFFSETS_TOPIC
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator_server.cluster import Cluster
    from coordinator_server.topics.topic import Partition, Topic


async def _brokers(request: ControlRequest) -> dict[str, Any]:
    cluster = request.cluster
    leaders = Counter(
        partition.leader_id
        for topic in cluster.topics.all_topics()
        for partition in topic.partitions
    )
    return {
        "cluster_id": cluster.cluster_id,
        "data_directory": cluster.topics.volume()[0],
        "controller": cluster.brokers.controller_id,
        "brokers": [_broker(cluster, node_id, leaders) for node_id in cluster.node_ids],
        "offline_partitions": leaders[-1],
    }


def _broker(cluster: Cluster, node_id: int, leaders: Counter[int]) -> dict[str, Any]:
    broker = cluster.brokers.get(node_id)
    return {
        "id": node_id,
        "state": "stopped" if broker is None else "running",
        "listeners": [str(listener) for listener in cluster.servers.addresses(node_id)],
        "partitions_led": leaders[node_id],
        "groups": 0 if broker is None else len(broker.groups.tasks),
        "connections": cluster.servers.connection_count(node_id),
    }


async def _stop(request: ControlRequest) -> dict[str, Any]:
    node_id = _broker_id(request.cluster, request.parameters["ID"])
    await request.cluster.stop_broker(node_id)
    return await _brokers(request)


async def _start(request: ControlRequest) -> dict[str, Any]:
    node_id = _broker_id(request.cluster, request.parameters["ID"])
    try:
        await request.cluster.start_broker(node_id)
    except StartError as error:
        raise ControlError(500, f"broker {node_id} cannot start: {error}") from error
    return await _brokers(request)


async def _move(request: ControlRequest) -> dict[str, Any]:
    topic = data.topic_of(request)
    return _moved(request, topic, data.partition_of(request, topic))


async def _move_group(request: ControlRequest) -> dict[str, Any]:
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
    if "to" not in request.query:
        raise ControlError(400, "to=ID is missing: the broker to move to")
    node_id = _broker_id(request.cluster, request.query["to"])
    if node_id not in request.cluster.brokers:
        raise ControlError(400, f"broker {node_id} is stopped")
    return node_id


def _broker_id(cluster: Cluster, text: str) -> int:
    node_id = natural_number(text)
    if node_id is None:
        raise ControlError(400, f"{text!r} is not the id of a broker")
    if node_id not in cluster.node_ids:
        known = ", ".join(map(str, cluster.node_ids))
        raise ControlError(404, f"there is no broker {text}, but {known}")
    return node_id


ROUTES: tuple[ControlRoute, ...] = (
    ControlRoute("GET", "/brokers", _brokers),
    ControlRoute("POST", "/brokers/ID/stop", _stop),
    ControlRoute("POST", "/brokers/ID/start", _start),
    ControlRoute("POST", "/partitions/TOPIC/INDEX/move", _move, ("to",)),
    ControlRoute("POST", "/groups/GROUP/move", _move_group, ("to",)),
    ControlRoute("GET", "/topics", data.topics),
    ControlRoute("GET", "/topics/TOPIC", data.topic),
    ControlRoute("POST", "/topics/TOPIC", data.create_topic),
    ControlRoute("POST", "/topics/TOPIC/records", data.produce),
    ControlRoute("GET", "/partitions/TOPIC/INDEX/records", data.records, ("offset", "count")),
    ControlRoute("GET", "/groups", groups.groups),
    ControlRoute("GET", "/groups/GROUP", groups.group),
    ControlRoute("GET", "/transactions", transactions.transactions),
    ControlRoute("GET", "/telemetry", telemetry.telemetry),
    ControlRoute("GET", "/telemetry/CLIENT", telemetry.client_metrics),
    ControlRoute("POST", "/reset", data.reset, ("move",)),
    ControlRoute("GET", "/clock", clock.state),
    ControlRoute("POST", "/clock/advance", clock.advance, ("seconds",)),
    ControlRoute("POST", "/clock/freeze", clock.freeze),
    ControlRoute("POST", "/clock/resume", clock.resume),
)
"""All routes of the control server."""
