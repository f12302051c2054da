"""Reads and ends transactions and producers like Kafka's Admin client.

All functions retry while leaders and coordinators move, until `default.api.timeout.ms`, and raise
ClientError. Errors that Kafka's Admin client logs are printed on standard error.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple, TypeVar

from coordinator_server.client import Client, ClientError, Lookup, check
from coordinator_server.client.client import TRANSACTION_COORDINATOR
from coordinator_server.kafka_tools.frame import client_label, print_stack_trace
from coordinator_server.kafka_tools.java import log
from protocol.errors import ErrorCode

T = TypeVar("T")

Partition = tuple[str, int]

_METADATA = "METADATA"
_UNEXPECTED = "ListTransactions request sent to broker {} failed with an unexpected exception"
_NOT_DESCRIBED = "DescribeTransactions request for transactionalId `{}` failed {}"
_REFUSALS = {
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: "because the ID could not be found",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "due to authorization failure",
}
_LIST_VERSION_WITH_DURATION, _LIST_VERSION_WITH_PATTERN = 1, 2
_LOGGERS = "org.apache.kafka.clients.admin.internals."


class TransactionOnBroker(NamedTuple):
    """A transactional id and the broker that lists it."""

    transactional_id: str
    coordinator: int
    producer_id: int
    state: str


class Abort(NamedTuple):
    """A producer's transaction in one partition, to be aborted there."""

    partition: Partition
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int

    def __str__(self) -> str:
        return (
            f"AbortTransactionSpec(topicPartition={_text(self.partition)},"
            f" producerId={self.producer_id}, producerEpoch={self.producer_epoch},"
            f" coordinatorEpoch={self.coordinator_epoch})"
        )


def list_transactions(
    client: Client,
    *,
    producer_ids: Iterable[int] = (),
    duration_ms: int = -1,
    pattern: str | None = None,
) -> list[TransactionOnBroker]:
    """Return the transactional ids of all brokers that match the filters."""
    from protocol.apis.list_transactions import ListTransactionsRequest

    request = ListTransactionsRequest(
        producer_id_filters=list(producer_ids),
        duration_filter=duration_ms,
        transactional_id_pattern=pattern,
    )
    least = _LIST_VERSION_WITH_DURATION if duration_ms >= 0 else 0
    least = least if pattern is None else _LIST_VERSION_WITH_PATTERN

    def ask(node_id: int) -> Any:
        answer = client.ask(request, node_id, min_version=least)
        code = ErrorCode(answer.error_code)
        if code and not code.retriable:
            what = f"The `ListTransactions` request sent to broker {node_id} failed because of an"
            _log_error(client, f"{what} unexpected error {code.name}", "ListTransactionsHandler")
            raise ClientError(code, _UNEXPECTED.format(node_id))
        check(code)
        return answer

    client.call(f"listTransactions(api={_METADATA})", partial(client.metadata, []))
    listed = []
    for node_id in sorted(client.nodes):
        call = "listTransactions(api=LIST_TRANSACTIONS)"
        answer = client.call(call, partial(ask, node_id))
        listed += [
            TransactionOnBroker(
                state.transactional_id, node_id, state.producer_id, state.transaction_state
            )
            for state in answer.transaction_states
        ]
    return listed


def describe_transaction(client: Client, transactional_id: str) -> tuple[int, Any]:
    """Return the coordinator's node id and the DescribedTransaction of a transactional id."""
    from protocol.apis.describe_transactions import DescribeTransactionsRequest

    request = DescribeTransactionsRequest(transactional_ids=[transactional_id])

    def ask(node_id: int) -> tuple[int, Any]:
        described = client.ask(request, node_id).transaction_states[0]
        code = ErrorCode(described.error_code)
        if not code.retriable:
            why = _REFUSALS.get(code, "due to unexpected error")
            check(code, _NOT_DESCRIBED.format(transactional_id, why))
        check(code)
        return node_id, described

    lookup = _coordinator(client, transactional_id)
    return client.call_on("describeTransactions", lookup, "DESCRIBE_TRANSACTIONS", ask)


def describe_producers(client: Client, partition: Partition, node_id: int | None = None) -> Any:
    """Return the ActiveProducers of a partition, from its leader or from a given broker."""
    from protocol.apis.describe_producers import (
        DescribeProducersRequest,
        DescribeProducersTopicRequest,
    )

    topic, index = partition
    request = DescribeProducersRequest(
        topics=[DescribeProducersTopicRequest(name=topic, partition_indexes=[index])]
    )

    def ask(asked_id: int) -> Any:
        described = client.ask(request, asked_id).topics[0].partitions[0]
        code = ErrorCode(described.error_code)
        # If the broker was chosen by id and does not lead the partition, a retry cannot help.
        is_final = code is ErrorCode.NOT_LEADER_OR_FOLLOWER and node_id is not None
        check(0 if is_final or not code.retriable else code)
        return described

    name, api = "describeProducers", "DESCRIBE_PRODUCERS"
    if node_id is None:
        described = _on_leader(client, name, partition, api, ask)
    else:
        lookup = Lookup(api, lambda: _known_node(client, node_id))
        described = client.call_on(name, lookup, api, ask)
    if described.error_code:
        code = ErrorCode(described.error_code)
        logged, why = _REFUSED_PRODUCERS.get(code, _REFUSED_PRODUCERS[ErrorCode.NONE])
        values = {"partition": _text(partition), "topic": topic, "node_id": node_id}
        text = described.error_message or code.message
        _log_error(
            client,
            logged.format(**values),
            "DescribeProducersHandler",
            ClientError(code, text),
        )
        raise ClientError(code, why.format(text=text, **values))
    return described.active_producers


_REFUSED_PRODUCERS = {
    ErrorCode.NOT_LEADER_OR_FOLLOWER: (
        "Not leader error in `DescribeProducers` response for partition {partition} for brokerId"
        " {node_id} set in options",
        "Failed to describe active producers for partition {partition} on brokerId {node_id}",
    ),
    ErrorCode.INVALID_TOPIC_EXCEPTION: (
        "Invalid topic in `DescribeProducers` response for partition {partition}",
        "Failed to fetch metadata for partition {partition} due to invalid topic error: {text}",
    ),
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: (
        "Authorization failed in `DescribeProducers` response for partition {partition}",
        "Failed to describe active producers for partition {partition} due to authorization failure"
        " on topic `{topic}`",
    ),
    ErrorCode.NONE: (
        "Unexpected error in `DescribeProducers` response for partition {partition}",
        "Failed to describe active producers for partition {partition} due to unexpected error",
    ),
}
"""Log message of Kafka's DescribeProducersHandler and message of the exception, by error code."""


def abort_transaction(client: Client, abort: Abort) -> None:
    """Write an abort marker into one partition."""
    from protocol.apis.write_txn_markers import (
        WritableTxnMarker,
        WritableTxnMarkerTopic,
        WriteTxnMarkersRequest,
    )

    topic, index = abort.partition
    marker = WritableTxnMarker(
        producer_id=abort.producer_id,
        producer_epoch=abort.producer_epoch,
        transaction_result=False,
        coordinator_epoch=abort.coordinator_epoch,
        topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=[index])],
    )
    request = WriteTxnMarkersRequest(markers=[marker])

    def ask(node_id: int) -> None:
        answer = client.ask(request, node_id)
        code = ErrorCode(answer.markers[0].topics[0].partitions[0].error_code)
        if code and not code.retriable:
            logged, why = _REFUSED_MARKERS.get(
                code,
                (
                    f"due to an unexpected error {code.name}",
                    f"due to unexpected error: {code.message}",
                ),
            )
            what = f"WriteTxnMarkers request for abort spec {abort} failed {logged}"
            _log_error(client, what, "AbortTransactionHandler")
            why = why.format(abort.coordinator_epoch)
            raise ClientError(code, f"WriteTxnMarkers request with {abort} failed {why}")
        check(code)

    _on_leader(client, "abortTransaction", abort.partition, "WRITE_TXN_MARKERS", ask)


_REFUSED_MARKERS = {
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: (
        "cluster authorization",
        "due to cluster authorization error",
    ),
    ErrorCode.INVALID_PRODUCER_EPOCH: (
        "due to an invalid producer epoch",
        "due an invalid producer epoch",
    ),
    ErrorCode.TRANSACTION_COORDINATOR_FENCED: (
        "because the coordinator epoch is fenced",
        "since the provided coordinator epoch {} has been fenced by the active coordinator",
    ),
}
"""Log message of Kafka's AbortTransactionHandler and message of the exception, by error code."""


def fence_producers(client: Client, transactional_id: str) -> None:
    """Abort the open transaction of a transactional id by initializing a new producer.

    As with Kafka's client, this sets the id's transaction timeout to this client's request timeout.
    """
    from protocol.apis.init_producer_id import InitProducerIdRequest

    request = InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=client.settings.request_timeout_ms,
    )
    lookup = _coordinator(client, transactional_id)

    def ask(node_id: int) -> None:
        check(client.ask(request, node_id).error_code)

    client.call_on("fenceProducer", lookup, "INIT_PRODUCER_ID", ask)


def _coordinator(client: Client, transactional_id: str) -> Lookup:
    find = partial(client.coordinator, transactional_id, TRANSACTION_COORDINATOR)
    return Lookup("FIND_COORDINATOR", find)


def _known_node(client: Client, node_id: int) -> int:
    """Return the node id if the broker is in the cluster.

    Raises ClientError (LEADER_NOT_AVAILABLE) for an unknown broker, so that `call` retries, like
    Kafka's client.
    """
    if node_id not in client.nodes:
        client.metadata([])
    check(ErrorCode.NONE if node_id in client.nodes else ErrorCode.LEADER_NOT_AVAILABLE)
    return node_id


def _on_leader(
    client: Client, name: str, partition: Partition, api: str, ask: Callable[[int], T]
) -> T:
    """Call `ask` with the node id of the partition's leader and return the result."""
    lookup = Lookup(_METADATA, partial(_leader, client, partition))
    return client.call_on(name, lookup, api, ask)


def _leader(client: Client, partition: Partition) -> int:
    """Look up the node id of a partition's leader in one attempt (PartitionLeaderStrategy)."""
    name, index = partition
    (topic,) = client.metadata([name]).topics
    code = ErrorCode(topic.error_code)
    if code and not code.retriable:
        logged, why = _REFUSED_TOPICS.get(
            code,
            (
                "Received unexpected error for topic {topic}",
                "due to unexpected error for topic `{topic}`",
            ),
        )
        what = f"{logged.format(topic=name)} in `Metadata` response"
        _log_error(client, what, "PartitionLeaderStrategy", ClientError(code))
        what = f"Failed to fetch metadata for partition {_text(partition)}"
        raise ClientError(code, f"{what} {why.format(topic=name)}")
    for described in topic.partitions:
        if described.partition_index == index and described.leader_id >= 0:
            return int(described.leader_id)
    raise ClientError(ErrorCode.LEADER_NOT_AVAILABLE)


_REFUSED_TOPICS = {
    ErrorCode.INVALID_TOPIC_EXCEPTION: (
        "Received invalid topic error for topic {topic}",
        "due to invalid topic `{topic}`",
    ),
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: (
        "Received authorization failure for topic {topic}",
        "due to topic authorization failure",
    ),
}
"""Log message of Kafka's PartitionLeaderStrategy and message of the exception, by error code."""


def _log_error(client: Client, message: str, logger: str, error: ClientError | None = None) -> None:
    """Print a log line like the Admin client's, followed by the exception, if any."""
    label = client_label("AdminClient", client.settings.client_id)
    log("ERROR", f"{label} {message}", f"{_LOGGERS}{logger}")
    if error is not None:
        print_stack_trace(error)


def now_ms() -> int:
    """Return the local time in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def _text(partition: Partition) -> str:
    """Return a partition in the format of Java's TopicPartition."""
    return f"{partition[0]}-{partition[1]}"
