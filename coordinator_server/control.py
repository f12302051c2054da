"""What can be done to the running cluster from outside, as one table of routes.

    GET  /brokers                               the brokers, and what each of them leads
    POST /brokers/ID/stop                       as a controlled shutdown
    POST /brokers/ID/start                      at the ports that it had
    POST /partitions/TOPIC/INDEX/move?to=ID     another broker leads the partition
    POST /groups/GROUP/move?to=ID               another broker coordinates the group

A group moves with its partition of `__consumer_offsets`, and so do the other groups in it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from coordinator_server.server import StartError
from coordinator_server.topics.names import OFFSETS_TOPIC
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator_server.cluster import Cluster
    from coordinator_server.topics.manager import Partition, Topic


class ControlError(Exception):
    """Something that cannot be done; `status` is that of HTTP, the text names what and why."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers or {}


Parameters = Mapping[str, str]
Answer = Callable[["Cluster", Parameters, Parameters], Awaitable[dict[str, Any]]]


class Route(NamedTuple):
    """A method and a path, whose words in capitals are parameters, and what answers there.

    `answer(cluster, parameters, query)` gives what becomes JSON, or raises ControlError.
    """

    method: str
    path: str
    answer: Answer


async def _brokers(cluster: Cluster, parameters: Parameters, query: Parameters) -> dict[str, Any]:
    leaders = Counter(
        partition.leader_id
        for topic in cluster.topics.all_topics()
        for partition in topic.partitions
    )
    return {
        "cluster_id": cluster.cluster_id,
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


async def _stop(cluster: Cluster, parameters: Parameters, query: Parameters) -> dict[str, Any]:
    node_id = _broker_id(cluster, parameters["ID"])
    await cluster.stop_broker(node_id)
    return await _brokers(cluster, parameters, query)


async def _start(cluster: Cluster, parameters: Parameters, query: Parameters) -> dict[str, Any]:
    node_id = _broker_id(cluster, parameters["ID"])
    try:
        await cluster.start_broker(node_id)
    except StartError as error:
        raise ControlError(500, f"broker {node_id} cannot start: {error}") from error
    return await _brokers(cluster, parameters, query)


async def _move(cluster: Cluster, parameters: Parameters, query: Parameters) -> dict[str, Any]:
    name, index = parameters["TOPIC"], parameters["INDEX"]
    topic = cluster.topics.topic(name)
    if topic is None:
        raise ControlError(404, f"there is no topic {name}")
    if not (index.isascii() and index.isdigit()) or int(index) >= len(topic.partitions):
        raise ControlError(
            404, f"topic {name} has no partition {index}, but {len(topic.partitions)} of them"
        )
    return _moved(cluster, topic, topic.partitions[int(index)], query)


async def _move_group(
    cluster: Cluster, parameters: Parameters, query: Parameters
) -> dict[str, Any]:
    _running_broker(cluster, query)
    if cluster.offsets_topic.ensure() is not ErrorCode.NONE:
        raise ControlError(500, f"{OFFSETS_TOPIC} cannot be created")
    topic = cluster.topics.topic(OFFSETS_TOPIC)
    assert topic is not None
    partition = cluster.offsets_topic.partition_of(parameters["GROUP"])
    return {"group": parameters["GROUP"], **_moved(cluster, topic, partition, query)}


def _moved(
    cluster: Cluster, topic: Topic, partition: Partition, query: Parameters
) -> dict[str, Any]:
    cluster.move(topic, partition, _running_broker(cluster, query))
    return {
        "topic": topic.name,
        "partition": partition.index,
        "leader": partition.leader_id,
        "leader_epoch": partition.known_epoch,
        "replicas": list(partition.replicas),
    }


def _running_broker(cluster: Cluster, query: Parameters) -> int:
    if "to" not in query:
        raise ControlError(400, "to=ID is missing: the broker to move to")
    node_id = _broker_id(cluster, query["to"])
    if node_id not in cluster.brokers:
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
)
"""Everything that the control server serves."""
