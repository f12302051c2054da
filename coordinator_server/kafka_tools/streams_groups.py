"""kafka-streams-groups.sh: list, describe, reset, delete groups (Kafka's StreamsGroupCommand).

Groups and partitions are printed in sorted order; Kafka prints them in hash table order.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing

from coordinator_server.client import Client, ClientError
from coordinator_server.kafka_tools.frame import (
    EXECUTION,
    FAILURES,
    Failure,
    ToolSpec,
    java_class,
    print_stack_trace,
    raise_wrapped,
)
from coordinator_server.kafka_tools.group_commands import (
    connect_for_groups,
    delete_group_offsets,
    export_plans,
    parse_list,
    print_deletions,
    print_states,
    selected,
    selected_partitions,
)
from coordinator_server.kafka_tools.groups_description import read_committed
from coordinator_server.kafka_tools.groups_read import (
    DEAD,
    Committed,
    Listing,
    Partition,
    alter_offsets,
    delete_group,
    list_kind,
)
from coordinator_server.kafka_tools.log_offsets import RUNTIME, check_partitions
from coordinator_server.kafka_tools.options import Options, OptionsError, UsageError
from coordinator_server.kafka_tools.reset_plan import Plan, plan_for, topic_scope
from coordinator_server.kafka_tools.streams_groups_description import (
    StreamsGroupDescription,
    delete_topics,
    describe_streams_group,
    is_internal_topic,
    print_members,
    print_offsets,
    print_state,
    print_topology,
)
from coordinator_server.kafka_tools.streams_groups_options import (
    OPTIONS,
    check_arguments,
    check_parsed,
)
from protocol.errors import ErrorCode

STATES = ("Assigning", "Dead", "Empty", "NotReady", "Reconciling", "Stable")


def run(options: Options) -> int:
    """Run the action that the options select and return the exit code."""
    check_parsed(options)
    try:
        return _run(options)
    except OptionsError as error:
        raise UsageError(str(error)) from None


def _run(options: Options) -> int:
    check_arguments(options)
    with closing(connect_for_groups(options)) as client:
        _ = options.integers("to-offset"), options.value("by-duration"), options.integer("shift-by")
        return selected(options, _ON_CLUSTER)(client, options) or 0


def _listed(client: Client) -> list[Listing]:
    try:
        return list_kind(client, "Streams")
    except FAILURES as error:
        raise_wrapped(error, EXECUTION, RUNTIME)


def _groups(client: Client, options: Options) -> list[str]:
    """Return the names of the selected groups. Raises ToolError."""
    if options.has("all-groups"):
        return [group.name for group in _listed(client)]
    return options.values("group")


def _list(client: Client, options: Options) -> None:
    if not options.has("state"):
        for group in _listed(client):
            print(group.name)
        return
    states = parse_list(options.value("state"), STATES, "state")
    try:
        groups = list_kind(client, "Streams", states)
    except FAILURES as error:
        raise_wrapped(error, EXECUTION)
    print_states(groups)


def _describe(client: Client, options: Options) -> int:
    code = 0
    is_verbose, has_graph = options.has("verbose"), options.has("topology")
    for name in _groups(client, options):
        try:
            group = describe_streams_group(client, name, has_graph=has_graph)
        except FAILURES as error:
            raise_wrapped(error, EXECUTION)
        if has_graph:
            code |= not print_topology(group)
        elif options.has("members"):
            print_members(group, is_verbose=is_verbose)
        elif options.has("state"):
            print_state(client, group, is_verbose=is_verbose)
        else:
            topics = group.source_topics() | group.repartition_topics()

            def committed(
                name: str = name, topics: set[str] = topics
            ) -> dict[Partition, Committed]:
                return _committed(client, name, topics)

            print_offsets(client, group, committed, is_verbose=is_verbose)
    return code


def _committed(client: Client, name: str, topics: set[str]) -> dict[Partition, Committed]:
    """Return the group's committed offsets of these topics. Raises ToolError."""
    offsets = read_committed(client, name)
    return {item: at for item, at in offsets.items() if item[0] in topics}


def _described(client: Client, name: str) -> StreamsGroupDescription:
    try:
        return describe_streams_group(client, name)
    except FAILURES as error:
        raise_wrapped(error, EXECUTION, RUNTIME)


def _input_partitions(client: Client, name: str) -> list[Partition]:
    """Return the input topics' partitions that have a committed offset. Raises ToolError."""
    return sorted(_committed(client, name, _described(client, name).source_topics()))


def _reset(client: Client, options: Options) -> None:
    plans: dict[str, Plan] = {}
    for name in dict.fromkeys(_groups(client, options)):
        try:
            state = describe_streams_group(client, name).described.group_state
        except ClientError as error:
            if error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
                raise_wrapped(error, EXECUTION, RUNTIME)
            plans[name] = _move(client, options, name)
            continue
        if state not in ("Empty", DEAD):
            print(
                f"\nError: Assignments can only be reset if the group '{name}' is inactive, but"
                f" the current state is {state}."
            )
            plans[name] = {}
            continue
        plans[name] = _move(client, options, name)
        if options.has("execute"):
            _delete_after_reset(client, options, name)
    if options.has("export"):
        export_plans(plans, has_groups=len(options.values("group")) != 1)
        return
    rows = [("GROUP", "TOPIC", "PARTITION", "NEW-OFFSET")] if plans else []
    for name, plan in plans.items():
        rows += ((name, topic, str(index), str(offset)) for (topic, index), offset in plan.items())
    for name, topic, index, offset in rows:
        print(f"\n{name:<30} {topic:<30} {index:<10} {offset:<15}", end="")
    print()


def _move(client: Client, options: Options, name: str) -> Plan:
    """Return the new offsets of a group; with `--execute`, also commit them."""
    partitions = _scope(client, options, name)

    def current() -> Plan:
        group = _described(client, name)
        topics = group.source_topics() | group.repartition_topics()
        return {item: at.offset for item, at in _committed(client, name, topics).items()}

    plan = plan_for(client, options, name, partitions, current)
    if options.has("execute"):
        alter_offsets(client, name, plan)
    return plan


def _scope(client: Client, options: Options, name: str) -> list[Partition]:
    if options.has("all-input-topics"):
        return _input_partitions(client, name)
    if options.has("input-topic"):
        partitions = topic_scope(client, options.values("input-topic"))
        check_partitions(client, partitions)
        if not read_committed(client, name).keys() >= set(partitions):
            print(f"\nError: One or more topics are not part of the group '{name}'.")
            return []
        return partitions
    if not options.has("from-file"):
        raise UsageError(
            "One of the reset scopes should be defined: --all-input-topics, --input-topic."
        )
    return []


def _delete_after_reset(client: Client, options: Options, name: str) -> None:
    """Delete the internal topics that the options name, or print why they were not deleted."""
    topics: Sequence[str] = ()
    if options.has("delete-all-internal-topics"):
        topics = _internal_topics(client, [name]).get(name, ())
    elif options.has("delete-internal-topic"):
        topics = options.values("delete-internal-topic")
    if not topics:
        return
    error = _deletion_error(client, topics)
    if error is None:
        return
    if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        print(
            f"\nError: Deleting internal topics for group '{name}' failed because the topics do"
            " not exist."
        )
        return
    try:
        raise_wrapped(error, EXECUTION)
    except FAILURES as wrapped:
        print(f"\nError: Deleting internal topics for group '{name}' failed due to {wrapped}")
        print_stack_trace(wrapped)


def _deletion_error(
    client: Client, topics: Sequence[str], *, names_topics: bool = False
) -> ClientError | None:
    """Delete topics and return the first error. `names_topics`: print the topics that failed."""
    if not topics:
        return None
    try:
        errors = delete_topics(client, topics)
    except ClientError as error:
        errors = dict.fromkeys(topics, error)
    if names_topics:
        for topic in errors:
            print(f"Failed to delete internal topic: {topic}")
    return next(iter(errors.values()), None)


def _internal_topics(client: Client, groups: Sequence[str]) -> dict[str, list[str]]:
    """Return the internal topics by group; print those that do not look like internal topics."""
    internal_topics: dict[str, list[str]] = {}
    try:
        described = [describe_streams_group(client, name) for name in groups]
    except ClientError as error:
        try:
            raise_wrapped(error, EXECUTION)
        except FAILURES as wrapped:
            print(f"\nError: Retrieving internal topics failed due to {wrapped}")
            print_stack_trace(wrapped)
        return {}
    for group in described:
        name = group.described.group_id
        for topic in group.internal_topics():
            if is_internal_topic(topic, name):
                internal_topics.setdefault(name, []).append(topic)
            else:
                print(
                    f"\nError: The internal topic '{topic}' is not inferred as internal and thus"
                    f" will not be deleted with the group '{name}'."
                )
    return internal_topics


def _delete(client: Client, options: Options) -> None:
    selected = _groups(client, options)
    failed = _undeletable(client, selected)
    groups = [name for name in dict.fromkeys(selected) if name not in failed]
    internal: dict[str, list[str]] = {}
    deleted: list[str] = []
    if groups and options.has("delete-all-internal-topics"):
        internal = _internal_topics(client, groups)
    for name in groups:
        try:
            delete_group(client, name)
        except ClientError as error:
            failed[name] = f"{java_class(error)}: {error}"
        else:
            deleted.append(name)
    errors: dict[str, ClientError] = {}
    for name in deleted:
        refusal = _deletion_error(client, internal.get(name, ()), names_topics=True)
        if refusal is not None:
            errors[name] = refusal
    listed = "', '".join(deleted)
    print_deletions("streams", f"'{listed}'", failed, end=".")
    if internal and deleted:
        _print_internal(errors, [name for name in deleted if name in internal])


def _undeletable(client: Client, groups: Sequence[str]) -> dict[str, str]:
    """Return the reason for each group that cannot be deleted: missing, or not empty."""
    states = {group.name: group.state for group in _listed(client)}
    failed = {}
    for name in dict.fromkeys(groups):
        if name not in states:
            failed[name] = (
                f"java.lang.IllegalArgumentException: Group '{name}' does not exist or is not a"
                " streams group."
            )
        elif states[name] == DEAD:
            failed[name] = (
                f"java.lang.IllegalStateException: Streams group '{name}' group state is DEAD."
            )
        elif states[name] not in ("", "Empty"):
            error = ClientError(ErrorCode.NON_EMPTY_GROUP)
            failed[name] = f"{java_class(error)}: Streams group '{name}' is not EMPTY."
    return failed


def _print_internal(errors: Mapping[str, ClientError], groups: Sequence[str]) -> None:
    """Print whether the internal topics of deleted groups were deleted."""
    if not errors:
        listed = "', '".join(groups)
        print(
            f"Deletion of associated internal topics of the streams groups ('{listed}') was"
            " successful."
        )
        return
    print("Deletion of some associated internal topics failed:")
    for name, error in errors.items():
        print(
            f"* Internal topics of the streams group '{name}' could not be deleted due to:"
            f" {java_class(error)}: {error}"
        )


def _delete_offsets(client: Client, options: Options) -> None:
    name = options.value("group") or ""
    results: dict[Partition, ClientError | None] = {}
    if options.has("all-input-topics"):
        partitions = _input_partitions(client, name)
    else:
        partitions = selected_partitions(client, options.values("input-topic"), results)
    delete_group_offsets(client, name, partitions, results)


def _failed(error: Failure) -> int:
    """Print an exception like Kafka's tool and return the exit code."""
    if isinstance(error, OptionsError):  # the option parser has already refused the arguments
        print(error, file=sys.stderr)
        return 1
    print(f"\nError: Executing streams group command failed due to {error}")
    print_stack_trace(error)
    return 1


_ON_CLUSTER: Mapping[str, Callable[[Client, Options], int | None]] = {
    "list": _list,
    "describe": _describe,
    "delete": _delete,
    "reset-offsets": _reset,
    "delete-offsets": _delete_offsets,
}

TOOL = ToolSpec(
    "kafka-streams-groups",
    OPTIONS,
    run,
    "This tool helps to list, describe, delete and manage the offsets of streams groups.",
    _failed,
)
