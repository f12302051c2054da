"""Reads streams groups and prints their offsets, members, states and topologies (KIP-1071).

The functions that read retry until `default.api.timeout.ms` is over, and raise ClientError. Offsets
of streams groups are read and changed like those of consumer groups.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from coordinator_server.client import Client, ClientError, check
from coordinator_server.kafka_tools.frame import EXECUTION, ToolError, raise_wrapped
from coordinator_server.kafka_tools.get_offsets import list_offsets
from coordinator_server.kafka_tools.groups_description import LEAST_WIDTH, MISSING
from coordinator_server.kafka_tools.groups_read import DEAD, Committed, Partition, on_coordinator
from coordinator_server.kafka_tools.log_offsets import EARLIEST, LATEST

if TYPE_CHECKING:
    from protocol.apis.streams_group_describe import (
        DescribedNode,
        DescribedStreamsAssignment,
        DescribedStreamsGroup,
        DescribedSubtopology,
        TopologyDescription,
    )


_SOURCE, _PROCESSOR = 1, 2
_AVAILABLE = 3
_NO_TOPOLOGY = {
    1: "No topology description is stored for streams group '{}'.",
    2: "The broker failed to fetch the topology description for streams group '{}'. See the"
    " broker logs for details.",
    0: "No topology description is available for streams group '{}' (status: NOT_REQUESTED).",
}


def print_topology(group: StreamsGroupDescription) -> bool:
    """Print the group's processing graph, or why there is none; return whether there is one."""
    described = group.described
    graph = described.topology_description
    if described.topology_description_status != _AVAILABLE or graph is None:
        reason = _NO_TOPOLOGY[described.topology_description_status]
        print(f"\nError: {reason.format(described.group_id)}")
        return False
    print(format_topology(graph))
    return True


def format_topology(graph: TopologyDescription) -> str:
    """Return a processing graph as text (Kafka's TopologyDescriptionFormatter)."""
    text = "Topologies:\n"
    for part in graph.subtopologies:
        text += f"   Sub-topology: {part.subtopology_id}\n{_nodes(part.nodes)}\n"
    for number, store in enumerate(graph.global_stores, len(graph.subtopologies)):
        text += f"   Sub-topology: {number} for global store (will not generate tasks)\n"
        text += f"{_nodes((store.source, store.processor))}\n"
    return text


def _nodes(nodes: Sequence[DescribedNode]) -> str:
    lines = []
    for node in nodes:
        before = [other.name for other in nodes if node.name in other.successors]
        after, back = f"\n      --> {_names(node.successors)}", f"\n      <-- {_names(before)}"
        if node.node_type == _SOURCE:
            topics = ", ".join(sorted(set(node.source_topics)))
            lines.append(f"    Source: {node.name} (topics: [{topics}]){after}\n")
        elif node.node_type == _PROCESSOR:
            stores = ", ".join(sorted(set(node.stores)))
            lines.append(f"    Processor: {node.name} (stores: [{stores}]){after}{back}\n")
        else:
            topic = "null" if node.sink_topic is None else node.sink_topic
            lines.append(f"    Sink: {node.name} (topic: {topic}){back}\n")
    return "".join(lines)


def _names(names: Sequence[str]) -> str:
    return ", ".join(sorted(set(names))) or "none"


def print_members(group: StreamsGroupDescription, *, is_verbose: bool) -> None:
    """Print a row for each member of a group that has members."""
    described = group.described
    if not _is_shown(group):
        return
    members = described.members
    member_width = max(LEAST_WIDTH, *(len(member.member_id) for member in members))
    process_width = max(LEAST_WIDTH, *(len(member.process_id) for member in members))
    client_width = max(LEAST_WIDTH, *(len(member.client_id) for member in members))
    rows = [("MEMBER", "PROCESS", "CLIENT-ID", "MEMBER-PROTOCOL", "MEMBER-EPOCH", "ASSIGNMENTS")]
    for member in members:
        tasks = _tasks(member.assignment)
        if is_verbose:
            tasks += _tasks(member.target_assignment, "TARGET-")
        protocol = "classic" if member.is_classic else "streams"
        who = (member.member_id, member.process_id, member.client_id)
        rows.append((*who, protocol, str(member.member_epoch), tasks))
    topology_epoch = described.topology.epoch if described.topology is not None else -1
    epochs = (str(described.assignment_epoch), str(topology_epoch))
    for number, row in enumerate(rows):
        name, process, client, protocol, epoch, tasks = row
        group_name = described.group_id if number else "GROUP"
        line = f"{group_name:<{max(LEAST_WIDTH, len(described.group_id))}} "
        if is_verbose:
            target, topology = epochs if number else ("TARGET-ASSIGNMENT-EPOCH", "TOPOLOGY-EPOCH")
            # As in Kafka, no space follows the topology epoch.
            line += f"{target:<25} {topology:<15}{name:<{member_width}} {protocol:<15} {epoch:<15} "
        else:
            line += f"{name:<{member_width}} "
        print(f"{line}{process:<{process_width}} {client:<{client_width}} {tasks}")


def _tasks(assignment: DescribedStreamsAssignment, prefix: str = "") -> str:
    text = ""
    for kind, tasks in (
        ("ACTIVE", assignment.active_tasks),
        ("STANDBY", assignment.standby_tasks),
        ("WARMUP", assignment.warmup_tasks),
    ):
        if tasks:
            text += f"{prefix}{kind}: "
            text += "".join(
                f"{task.subtopology_id}:[{','.join(map(str, task.partitions))}]; " for task in tasks
            )
    return text


def print_state(client: Client, group: StreamsGroupDescription, *, is_verbose: bool) -> None:
    """Print coordinator, assignor, state and number of members of a group."""
    described = group.described
    _print_empty(group)
    host, port = client.nodes[group.node_id]
    coordinator = f"{host}:{port} ({group.node_id})"
    assignor = described.assignor_name or ""
    header = ["GROUP", "COORDINATOR (ID)", "ASSIGNOR", "STATE"]
    row = [described.group_id, coordinator, assignor, described.group_state]
    widths = [len(described.group_id), max(25, len(coordinator)), len(assignor), 25]
    if is_verbose:
        header += ("GROUP-EPOCH", "TARGET-ASSIGNMENT-EPOCH")
        row += (str(described.group_epoch), str(described.assignment_epoch))
        widths += (15, 25)
    for cells, last in ((header, "#MEMBERS"), (row, str(len(described.members)))):
        _print_row(cells, widths, last)


def print_offsets(
    client: Client,
    group: StreamsGroupDescription,
    committed: Callable[[], Mapping[Partition, Committed]],
    *,
    is_verbose: bool,
) -> None:
    """Print a row for each partition that members of the group read. Raises ToolError.

    `committed` reads the committed offsets of the topics of the group.
    """
    partitions = _assigned(group)
    starts, ends = (_log_offsets(client, partitions, at) for at in (EARLIEST, LATEST))
    offsets = committed()
    if not _is_shown(group):
        return
    name = group.described.group_id
    header = ["GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LEADER-EPOCH", "LOG-END-OFFSET"]
    widths = [len(name), max([0, *(len(topic) for topic, _ in partitions)]), 10]
    if is_verbose:
        _print_row(header, [*widths, 15, 15, 15], f"{'OFFSET-LAG':<15}")
    else:
        _print_row(header[:3], widths, "OFFSET-LAG")
    for topic, index in partitions:
        start, end = starts[topic, index], ends[topic, index]
        at = offsets.get((topic, index))
        lag = str(end - (start if at is None else at.offset))
        row = [name, topic, str(index)]
        if is_verbose:
            epoch = MISSING if at is None or at.leader_epoch < 0 else str(at.leader_epoch)
            row += (MISSING if at is None else str(at.offset), epoch, str(end))
            _print_row(row, [*widths, 15, 15, 15], f"{lag:<15}")
        else:
            _print_row(row, widths, lag)


def _assigned(group: StreamsGroupDescription) -> list[Partition]:
    """Return the partitions that the active tasks of the members read."""
    topics = {
        part.subtopology_id: [
            *part.source_topics,
            *(topic.name for topic in part.repartition_source_topics),
        ]
        for part in group.subtopologies
    }
    return sorted(
        {
            (topic, index)
            for member in group.described.members
            for task in member.assignment.active_tasks
            for topic in topics.get(task.subtopology_id, ())
            for index in task.partitions
        }
    )


def _log_offsets(
    client: Client, partitions: Sequence[Partition], timestamp: int
) -> dict[Partition, int]:
    offsets: dict[Partition, int] = {}
    try:
        answers = list_offsets(client, dict.fromkeys(partitions, timestamp)) if partitions else {}
        for partition, offset in answers.items():
            if isinstance(offset, ClientError):
                raise offset
            offsets[partition] = offset
    except ClientError as error:
        raise_wrapped(error, EXECUTION)
    return offsets


def _is_shown(group: StreamsGroupDescription) -> bool:
    """Return whether the group has members to describe; if not, print that it has none."""
    if group.described.group_state == DEAD or not group.described.members:
        return False
    _print_empty(group)
    return True


def _print_empty(group: StreamsGroupDescription) -> None:
    name, state = group.described.group_id, group.described.group_state
    if state == DEAD:
        print(f"\nError: Streams group '{name}' does not exist.")
    elif state == "Empty":
        print(f"\nError: Streams group '{name}' has no active members.")


def _print_row(cells: Sequence[str], widths: Sequence[int], last: str) -> None:
    """Print cells in columns at least 15 wide, except columns of partition numbers."""
    padded = [
        f"{cell:<{width if width == 10 else max(LEAST_WIDTH, width)}}"
        for cell, width in zip(cells, widths, strict=True)
    ]
    print(" ".join((*padded, last)))


_INTERNAL = re.compile(
    r".*(?:-changelog|-repartition|-subscription-registration-topic|-subscription-response-topic)"
    r"|.+-KTABLE-FK-JOIN-SUBSCRIPTION-(?:REGISTRATION|RESPONSE)-\d+-topic",
    re.ASCII | re.DOTALL,
)


class StreamsGroupDescription(NamedTuple):
    """A described streams group and the node id of its coordinator."""

    described: DescribedStreamsGroup
    node_id: int

    @property
    def subtopologies(self) -> Sequence[DescribedSubtopology]:
        """The subtopologies of the group."""
        topology = self.described.topology
        return (topology.subtopologies if topology is not None else None) or ()

    def source_topics(self) -> set[str]:
        """Return the input topics of the group."""
        return {topic for part in self.subtopologies for topic in part.source_topics}

    def repartition_topics(self) -> set[str]:
        """Return the repartition topics that the group reads."""
        return {
            topic.name for part in self.subtopologies for topic in part.repartition_source_topics
        }

    def internal_topics(self) -> list[str]:
        """Return the repartition and changelog topics of the group, without its input topics."""
        topics = (
            topic.name
            for part in self.subtopologies
            for topic in (*part.repartition_source_topics, *part.state_changelog_topics)
        )
        sources = self.source_topics()
        return [topic for topic in topics if topic not in sources]


def describe_streams_group(
    client: Client, name: str, *, has_graph: bool = False
) -> StreamsGroupDescription:
    """Describe a streams group; `has_graph` also requests the description of its topology."""
    from protocol.apis.streams_group_describe import StreamsGroupDescribeRequest

    request = StreamsGroupDescribeRequest(group_ids=[name], include_topology_description=has_graph)

    def attempt(node_id: int) -> StreamsGroupDescription:
        answer = client.ask(request, node_id, min_version=int(has_graph)).groups[0]
        check(answer.error_code, answer.error_message)
        if answer.topology is None:
            raise ToolError("java.lang.IllegalStateException", "Topology information is missing")
        return StreamsGroupDescription(answer, node_id)

    return on_coordinator(client, "describeStreamsGroups", name, attempt)


def is_internal_topic(topic: str, group: str) -> bool:
    """Return whether a topic has the name of an internal topic of the group."""
    return topic.startswith(f"{group}-") and _INTERNAL.fullmatch(topic) is not None


def delete_topics(client: Client, topics: Sequence[str]) -> dict[str, ClientError]:
    """Delete topics; return the errors of the topics that were not deleted."""
    from protocol.apis.delete_topics import DeleteTopicsRequest, DeleteTopicState

    names = list(dict.fromkeys(topics))
    request = DeleteTopicsRequest(
        topics=[DeleteTopicState(name=name) for name in names],
        topic_names=names,
        timeout_ms=client.settings.request_timeout_ms,
    )
    return {
        result.name: ClientError(result.error_code, result.error_message)
        for result in client.ask_controller("deleteTopics", request).responses
        if result.error_code
    }
