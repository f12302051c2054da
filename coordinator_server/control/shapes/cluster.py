"""The cluster, its brokers, the clock, snapshots and the reset."""

from __future__ import annotations

from typing import Annotated, Literal, TypedDict


class Counts(TypedDict):
    """The numbers of topics, groups, connections and transactions in the cluster."""

    topics: Annotated[int, "topics, including internal ones"]
    partitions: Annotated[int, "partitions of all topics"]
    groups: Annotated[int | None, "groups of all four types; null while no broker runs"]
    connections: Annotated[int, "open client connections; 0 without DESCRIBE on CLUSTER"]
    transactions: Annotated[int | None, "transactional ids; null while no broker runs"]
    open_transactions: Annotated[
        int | None, "transactions that are not completed; null while no broker runs"
    ]


class Security(TypedDict):
    """Whether the broker enforces ACLs, and whether the control server requires a login."""

    has_authorizer: Annotated[bool, "whether ACLs are enforced"]
    has_acls: Annotated[bool, "whether there is an ACL"]
    allows_without_acl: Annotated[
        bool,
        "whether every client may do everything with resources that have no ACL "
        "(`allow.everyone.if.no.acl.found`, or no authorizer)",
    ]
    user: Annotated[str | None, "the user of this request, null without a login"]
    requires_login: Annotated[bool, "whether this server only serves users (`--http-login`)"]
    is_read_only: Annotated[bool, "whether this server only serves GET (`--http-read-only`)"]


class Cluster(TypedDict):
    """The cluster: its ids, versions, brokers and counts, and the broker's time."""

    cluster_id: Annotated[str, "cluster id"]
    version: Annotated[str, "version of coordinator-server"]
    kafka_version: Annotated[str, "release of Apache Kafka whose behaviour this broker has"]
    controller: Annotated[int, "node id of the broker that clients are told to be the controller"]
    brokers: Annotated[int, "brokers of the process"]
    running: Annotated[
        int, "brokers that run; while it is 0, groups, transactions and changes get 503"
    ]
    offline_partitions: Annotated[int, "partitions without a leader"]
    counts: Annotated[Counts, "numbers of what the user may describe"]
    security: Annotated[Security, "authorizer and login"]
    started_at_ms: Annotated[int, "when the control server was started"]
    now_ms: Annotated[int, "the broker's time"]
    data_directory: Annotated[
        str | None, "the directory of the data; null without DESCRIBE on CLUSTER"
    ]
    is_ephemeral: Annotated[bool, "whether the data is deleted with the process"]


class Listener(TypedDict):
    """An address to which clients of a broker connect."""

    name: Annotated[str, "name of the listener, such as PLAINTEXT"]
    protocol: Annotated[str, "security protocol: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL"]
    address: Annotated[str, "HOST:PORT to connect to"]
    mechanisms: Annotated[list[str], "SASL mechanisms; empty without SASL"]


class Broker(TypedDict):
    """One broker of the process."""

    id: Annotated[int, "node id"]
    state: Annotated[Literal["running", "stopped"], "whether the broker runs"]
    listeners: Annotated[list[str], "addresses, as `NAME://HOST:PORT`"]
    endpoints: Annotated[list[Listener], "the same addresses with their protocols"]
    rack: Annotated[str | None, "the setting broker.rack"]
    partitions_led: Annotated[int, "partitions that the broker leads"]
    groups: Annotated[int, "groups that the broker coordinates"]
    connections: Annotated[int, "open client connections"]


class Brokers(TypedDict):
    """All brokers of the process."""

    cluster_id: Annotated[str, "cluster id"]
    data_directory: Annotated[str, "the directory of the data"]
    controller: Annotated[int, "node id of the controller"]
    brokers: Annotated[list[Broker], "the brokers by id"]
    offline_partitions: Annotated[int, "partitions without a leader"]


class Moved(TypedDict):
    """The new leader of a partition."""

    topic: Annotated[str, "topic"]
    partition: Annotated[int, "partition"]
    leader: Annotated[int, "node id of the leader"]
    leader_epoch: Annotated[int, "leader epoch after the move"]
    replicas: Annotated[list[int], "node ids of the replicas"]


class GroupMoved(Moved):
    """The new coordinator of a group: the leader of its partition of `__consumer_offsets`."""

    group: Annotated[str, "group"]


class Clock(TypedDict):
    """The broker's time."""

    now_ms: Annotated[int, "the broker's time"]
    frozen: Annotated[bool, "whether the time stands still"]
    offset_ms: Annotated[int, "difference to the machine's time"]


class ResetDone(TypedDict):
    """The numbers of topics, groups and connections that a reset removed, and the new addresses."""

    topics: Annotated[int, "removed topics"]
    groups: Annotated[int, "removed groups"]
    connections: Annotated[int, "closed connections"]
    listeners: Annotated[list[list[str]], "addresses of each broker"]


class NewSnapshot(TypedDict):
    """The directory to write a snapshot to."""

    directory: Annotated[str, "absolute path of a directory that does not exist or is empty"]


class Snapshot(TypedDict):
    """A consistent copy of the data directory, for `coordinator-server restore`."""

    directory: Annotated[str, "where the copy is"]
    summary: Annotated[list[str], "what was copied and verified, in words"]
    duration_ms: Annotated[int, "how long the snapshot took"]


class SnapshotToRestore(TypedDict):
    """The snapshot to restore."""

    directory: Annotated[str, "absolute path of a snapshot"]


class Restored(TypedDict):
    """The result of a restore, with the snapshot that was restored."""

    directory: Annotated[str, "where the snapshot is"]
    summary: Annotated[list[str], "what was copied and verified, in words"]
    duration_ms: Annotated[int, "how long the request took"]
    outage_ms: Annotated[int, "how long no broker answered"]
    cluster_id: Annotated[str, "cluster id"]
    listeners: Annotated[list[list[str]], "addresses of each broker"]
