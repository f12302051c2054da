"""kafka-share-groups.sh: list, describe, reset and delete share groups (Kafka's ShareGroupCommand).

Groups and partitions are printed in sorted order; Kafka prints them in hash table order.
"""

from __future__ import annotations

import sys

from coordinator_server.client import Client, ClientError
from coordinator_server.kafka_tools.frame import (
    BOOTSTRAP_SERVER,
    COMMAND_CONFIG,
    EXECUTION,
    FAILURES,
    ToolError,
    ToolSpec,
    java_class,
    print_thrown_by_main,
    raise_wrapped,
)
from coordinator_server.kafka_tools.group_commands import (
    RESET_OPTIONS,
    TIMEOUT,
    act_on_groups,
    check_available,
    check_exclusive,
    export_plans,
    names,
    parse_list,
    print_deletions,
    print_plans,
    print_states,
)
from coordinator_server.kafka_tools.groups_description import LEAST_WIDTH, print_table
from coordinator_server.kafka_tools.groups_read import DEAD, delete_group, list_kind
from coordinator_server.kafka_tools.log_offsets import check_partitions
from coordinator_server.kafka_tools.options import Option, Options, OptionsError, UsageError
from coordinator_server.kafka_tools.reset_plan import Plan, plan_for, topic_scope
from coordinator_server.kafka_tools.share_groups_description import (
    alter_share_offsets,
    delete_share_offsets,
    describe_share_group,
    print_group_states,
    print_members,
    print_offsets,
    share_offsets,
)
from protocol.errors import ErrorCode

ACTIONS = ("list", "describe", "delete", "reset-offsets", "delete-offsets")
SCOPES = ("topic", "all-topics", "from-file")
WAYS = ("to-offset", "to-earliest", "to-latest", "to-datetime", "from-file", "to-current")
STATES = ("Dead", "Empty", "Stable")
_AVAILABLE = {
    "members": ("describe",),
    "offsets": ("describe",),
    "state": ("describe", "list"),
    "verbose": ("describe",),
}
OPTIONS = (
    BOOTSTRAP_SERVER,
    COMMAND_CONFIG,
    TIMEOUT,
    Option("list", "List the share groups."),
    Option("describe", "Print the offsets, members or state of share groups."),
    Option("delete", "Delete share groups."),
    Option("reset-offsets", "Change the start offsets of a share group without members."),
    Option("delete-offsets", "Delete the offsets of a share group for topics."),
    Option("group", "A share group; may be repeated.", argument="group id"),
    Option("all-groups", "All share groups (--describe, --delete)."),
    Option(
        "topic",
        "A topic, or some of its partitions as TOPIC:0,1,2; may be repeated (--reset-offsets,"
        " --delete-offsets).",
        argument="topic",
    ),
    Option("all-topics", "All partitions of the group (--reset-offsets)."),
    Option("offsets", "Describe the offsets of each partition; the default of --describe."),
    Option("members", "Describe the members."),
    Option(
        "state",
        "With --describe: the state of groups. With --list: print the states, or list "
        "only groups in these states.",
        argument="String",
        is_argument_optional=True,
    ),
    Option("verbose", "Print more columns."),
    Option("dry-run", "Print the new offsets without changing anything."),
    Option("execute", "Change the start offsets."),
    *(option for option in RESET_OPTIONS if option.name in ("export", *WAYS)),
)


class _RefusedError(Exception):
    """Ends the tool with a line on standard error and exit code 1 (Kafka's printErrorAndExit)."""


def run(options: Options) -> int:
    """Run the action that the options select and return the exit code."""
    check_available(options, _AVAILABLE)
    try:
        _check_arguments(options)
    except OptionsError as error:
        raise UsageError(str(error)) from None
    if sum(map(options.has, ACTIONS)) != 1:
        actions = ", ".join(f"--{action}" for action in ACTIONS)
        raise UsageError(f"Command must include exactly one action: {actions}.")
    try:
        return act_on_groups(options, _ON_CLUSTER, "share")
    except _RefusedError as error:
        print(error, file=sys.stderr)
        return 1


def _check_arguments(options: Options) -> None:
    """Refuse invalid combinations, in the order of Kafka's ShareGroupCommandOptions."""
    options.required("bootstrap-server")
    has_group, has_groups = options.has("group"), options.has("all-groups")
    if options.has("describe"):
        if not has_group and not has_groups:
            scopes = names(("group", "all-groups"))
            raise UsageError(f"Option [describe] takes one of these options: {scopes}")
        if sum(map(options.has, ("members", "offsets", "state"))) > 1:
            views = names(("members", "offsets", "state"))
            raise UsageError(f"Option [describe] takes at most one of these options: {views}")
        if options.has("state") and options.value("state") is not None:
            raise UsageError("Option [describe] does not take a value for [state]")
    if options.has("delete"):
        if not has_group and not has_groups:
            raise UsageError("Option [delete] takes the options [group] or [all-groups].")
        if has_group and has_groups:
            raise UsageError("Option [delete] takes either [group] or [all-groups], not both.")
        if options.has("topic") or options.has("all-topics"):
            raise UsageError("Option [delete] does not take the options [topic] or [all-topics].")
    if options.has("delete-offsets") and not (has_group and options.has("topic")):
        raise UsageError("Option [delete-offsets] takes the following options: [group], [topic]")
    if options.has("reset-offsets"):
        _check_reset(options)
    options.excludes("group", "all-groups", "list")
    options.excludes("topic", "list", "describe", "delete")


def _check_reset(options: Options) -> None:
    if options.has("dry-run") and options.has("execute"):
        raise UsageError("Option [reset-offsets] only accepts one of [execute] and [dry-run]")
    if not options.has("dry-run") and not options.has("execute"):
        raise UsageError("Option [reset-offsets] takes the option: [execute] or [dry-run]")
    if not options.has("group"):
        raise UsageError("Option [reset-offsets] takes the option: [group]")
    for alternatives in (SCOPES, WAYS):
        if not any(map(options.has, alternatives)):
            raise UsageError(
                f"Option [reset-offsets] takes one of these options: {names(alternatives)}"
            )
        check_exclusive(options, alternatives)


def _list(client: Client, options: Options) -> None:
    if not options.has("state"):
        for group in list_kind(client, "Share"):
            print(group.name)
        return
    states = parse_list(options.value("state"), STATES, "state")
    try:
        groups = list_kind(client, "Share", states)
    except FAILURES as error:
        raise_wrapped(error, EXECUTION)
    print_states(groups)


def _describe(client: Client, options: Options) -> None:
    selected = options.values("group")
    if options.has("all-groups"):
        selected = [group.name for group in list_kind(client, "Share")]
    try:
        groups = [describe_share_group(client, name) for name in sorted(set(selected))]
    except FAILURES as error:
        raise_wrapped(error, EXECUTION)
    is_verbose = options.has("verbose")
    if options.has("members"):
        print_members(groups, is_verbose=is_verbose)
    elif options.has("state"):
        print_group_states(client, groups, is_verbose=is_verbose)
    else:
        offsets = {
            group.described.group_id: share_offsets(client, group.described.group_id)
            for group in groups
        }
        print_offsets(offsets, is_verbose=is_verbose)


def _delete(client: Client, options: Options) -> None:
    states = {group.name: group.state for group in list_kind(client, "Share")}
    selected = list(states) if options.has("all-groups") else options.values("group")
    deleted: list[str] = []
    failed: dict[str, str] = {}
    for name in dict.fromkeys(selected):
        if name not in states:
            error = ClientError(
                ErrorCode.GROUP_ID_NOT_FOUND, f"Group '{name}' is not a share group."
            )
        elif states[name] == DEAD:
            failed[name] = (
                f"java.lang.IllegalStateException: Share group '{name}' group state is DEAD."
            )
            continue
        elif states[name] not in ("", "Empty"):
            error = ClientError(ErrorCode.NON_EMPTY_GROUP, f"Share group '{name}' is not EMPTY.")
        else:
            try:
                delete_group(client, name, "deleteShareGroups")
            except ClientError as refusal:
                error = refusal
            else:
                deleted.append(name)
                continue
        failed[name] = f"{java_class(error)}: {error}"
    listed = ", ".join(f"'{name}'" for name in deleted)
    print_deletions("share", listed, failed)


def _reset(client: Client, options: Options) -> None:
    name = options.value("group") or ""
    try:
        state = describe_share_group(client, name).described.group_state
    except ClientError as error:
        if error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
            raise _RefusedError(str(error)) from None
        state = DEAD  # a missing group counts as DEAD, because a reset of offsets creates it
    if state not in ("Empty", DEAD):
        raise _RefusedError(f"Share group '{name}' is not empty.")
    plan = _move(client, options, name)
    plans = {name: plan} if plan else {}
    if options.has("export"):
        export_plans(plans, has_groups=False)
    else:
        print_plans(plans)


def _move(client: Client, options: Options, name: str) -> Plan:
    """Return the new start offsets; with `--execute`, also apply them."""
    if options.has("topic"):
        partitions = topic_scope(client, options.values("topic"))
    else:
        partitions = sorted(share_offsets(client, name))
    check_partitions(client, partitions)

    def current() -> Plan:
        offsets = share_offsets(client, name)
        if any(offset is None for item, offset in offsets.items() if item in partitions):
            raise ToolError(
                "java.lang.NullPointerException",
                'Cannot invoke "org.apache.kafka.clients.admin.SharePartitionOffsetInfo'
                '.startOffset()" because the return value of "java.util.Map.get(Object)" is null',
            )
        return {item: offset.start for item, offset in offsets.items() if offset is not None}

    plan = plan_for(client, options, name, partitions, current, WAYS)
    if options.has("execute"):
        alter_share_offsets(client, name, plan)
    return plan


def _delete_offsets(client: Client, options: Options) -> None:
    name = options.value("group") or ""
    topics = sorted(set(options.values("topic")))
    results: dict[str, ClientError | None]
    try:
        results = delete_share_offsets(client, name, topics)
        error = next(filter(None, results.values()), None)
    except ClientError as refusal:
        error, results = refusal, dict.fromkeys(topics, refusal)
    if error is not None:
        _print_top_error(error)
    width = max([LEAST_WIDTH, *map(len, results)])
    rows = [("TOPIC", "STATUS")]
    for topic, reason in sorted(results.items()):
        rows.append((topic, "Successful" if reason is None else f"Error: {reason}"))
    print_table(rows, (width,))


def _print_top_error(error: ClientError) -> None:
    if error.code in (
        ErrorCode.INVALID_GROUP_ID,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.NON_EMPTY_GROUP,
    ):
        print(f"\nError: {error}")
    elif error.code not in (
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ):
        print(f"\nError: Encounter some unknown error: {java_class(error)}: {error}")


_ON_CLUSTER = {
    "list": _list,
    "describe": _describe,
    "delete": _delete,
    "reset-offsets": _reset,
    "delete-offsets": _delete_offsets,
}

TOOL = ToolSpec(
    "kafka-share-groups",
    OPTIONS,
    run,
    "This tool helps to list, describe, delete and manage the offsets of share groups.",
    print_thrown_by_main,
)
