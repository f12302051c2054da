"""Topics, partitions and configs."""

from __future__ import annotations

from typing import Annotated, Any, NotRequired, TypedDict


class PartitionOffsets(TypedDict):
    """The offsets of one partition."""

    start_offset: Annotated[int, "log start offset; -1 with `error`"]
    end_offset: Annotated[
        int, "high watermark: the offset after the last readable record; -1 with `error`"
    ]
    error: NotRequired[Annotated[str, "why the log cannot be opened: the partition is offline"]]


class Topic(TypedDict):
    """A topic with the offsets of its partitions."""

    topic: Annotated[str, "name"]
    topic_id: Annotated[str, "topic id, a UUID as Kafka writes it"]
    is_internal: Annotated[bool, "whether clients may not write to the topic"]
    configs: Annotated[dict[str, str], "the topic's own configs"]
    partitions: Annotated[list[PartitionOffsets], "the partitions in order"]


class Topics(TypedDict):
    """A page of topics, sorted by name."""

    topics: Annotated[list[Topic], "the topics"]
    next: Annotated[str | None, "the value of `after` for the next page; null on the last page"]


class NewTopic(TypedDict):
    """A topic to create. The default of `partitions` is the setting num.partitions."""

    partitions: NotRequired[Annotated[int | None, "number of partitions, at most 10000"]]
    configs: NotRequired[Annotated[dict[str, Any] | None, "topic configs by name"]]


class Deleted(TypedDict):
    """The names that were deleted."""

    deleted: Annotated[list[str], "names"]


class PartitionCount(TypedDict):
    """The new number of partitions of a topic."""

    count: Annotated[int, "new number of partitions, larger than the present one"]


class Partition(TypedDict):
    """One partition."""

    topic: Annotated[str, "topic"]
    partition: Annotated[int, "partition"]
    leader: Annotated[int, "node id of the leader, -1 if the partition is offline"]
    error: NotRequired[Annotated[str, "why the log cannot be opened: the partition is offline"]]
    leader_epoch: Annotated[int, "leader epoch"]
    replicas: Annotated[list[int], "node ids of the replicas"]
    start_offset: Annotated[int, "log start offset"]
    end_offset: Annotated[int, "high watermark"]
    last_stable_offset: Annotated[int, "where consumers with read_committed stop"]
    size_bytes: Annotated[int, "size of the log"]
    open_transactions: Annotated[int, "transactions that have written and are not completed"]


class Partitions(TypedDict):
    """A page of partitions, sorted by topic and partition."""

    partitions: Annotated[list[Partition], "the partitions"]
    next: Annotated[str | None, "the value of `after` for the next page; null on the last page"]


class ConfigSynonym(TypedDict):
    """A setting whose value applies if a config has no value of its own."""

    name: Annotated[str, "name of the setting"]
    value: Annotated[str | None, "value, null if it is a secret"]
    source: Annotated[str, "source as in DescribeConfigs, such as STATIC_BROKER_CONFIG"]


class Config(TypedDict):
    """One config or setting with its source, as DescribeConfigs returns it."""

    name: Annotated[str, "name"]
    value: Annotated[str | None, "value in force, null if there is none or if it is a secret"]
    source: Annotated[
        str,
        "where the value comes from: DYNAMIC_TOPIC_CONFIG, DYNAMIC_BROKER_CONFIG, "
        "DYNAMIC_DEFAULT_BROKER_CONFIG, STATIC_BROKER_CONFIG, DYNAMIC_GROUP_CONFIG, "
        "DYNAMIC_CLIENT_METRICS_CONFIG or DEFAULT_CONFIG",
    ]
    type: Annotated[str, "Kafka's type of the config, such as LONG or LIST"]
    is_read_only: Annotated[bool, "whether the value can only be changed by a restart"]
    is_sensitive: Annotated[bool, "whether the value is a secret, which is not shown"]
    documentation: Annotated[str | None, "meaning"]
    synonyms: Annotated[list[ConfigSynonym], "the value in force, then the values it overrides"]


class Configs(TypedDict):
    """The configs of a resource, sorted by name."""

    configs: Annotated[list[Config], "the configs"]


class ConfigChange(TypedDict):
    """A change of configs. Configs that are not in the request keep their values."""

    set: NotRequired[Annotated[dict[str, str], "new values by name"]]
    unset: NotRequired[Annotated[list[str], "names whose own values are removed"]]
