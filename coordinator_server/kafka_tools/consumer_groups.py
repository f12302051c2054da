"""kafka-consumer-groups.sh: list, describe, reset and delete groups (Kafka's ConsumerGroupCommand).

Like Kafka's tool, this tool exits with 0 even if a broker refuses; only wrong arguments give 1.
Groups and partitions are sorted by name. Kafka prints them in hash table order.
"""

from __future__ import annotations

import sys

from coordinator_server.client import Client, ClientError
from coordinator_server.core.groups.consumer.regex import InvalidRegexError, check_regex
from coordinator_server.kafka_tools.frame import (
    COMMAND_CONFIG,
    EXECUTION,
    FAILURES,
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
    delete_group_offsets,
    export_plans,
    parse_list,
    print_deletions,
    print_plans,
    selected_partitions,
)
from coordinator_server.kafka_tools.groups_description import (
    print_members,
    print_offsets,
    print_states,
    read_groups,
)
from coordinator_server.kafka_tools.groups_read import (
    DEAD,
    Listing,
    Partition,
    alter_offsets,
    delete_group,
    describe_group,
    list_groups,
)
from coordinator_server.kafka_tools.log_offsets import (
    RUNTIME,
)
from coordinator_server.kafka_tools.options import Option, Options, UsageError
from coordinator_server.kafka_tools.reset_plan import WAYS, Plan, make_plan
from protocol.errors import ErrorCode

ACTIONS = ("list", "describe", "delete", "reset-offsets", "delete-offsets", "validate-regex")
STATES = (
    "Assigning",
    "CompletingRebalance",
    "Dead",
    "Empty",
    "PreparingRebalance",
    "Reconciling",
    "Stable",
)
TYPES = ("Classic", "Consumer")
_AVAILABLE = {
    "members": ("describe",),
    "verbose": ("describe",),
    "offsets": ("describe",),
    "state": ("describe", "list"),
    "type": ("list",),
}
OPTIONS = (
    Option(
        "bootstrap-server",
        "REQUIRED except for --validate-regex: the bootstrap servers.",
        argument="server to connect to",
    ),
    COMMAND_CONFIG,
    Option("list", "List the groups."),
    Option("describe", "Print the offsets, members or state of groups."),
    Option("delete", "Delete groups and their offsets."),
    Option(
        "reset-offsets",
        "Change the committed offsets of groups without members, as the --to, --by, "
        "--shift and --from options specify.",
    ),
    Option("delete-offsets", "Delete the committed offsets of a group for topics."),
    Option("group", "A group; may be repeated.", argument="consumer group"),
    Option("all-groups", "All groups (--describe, --delete, --reset-offsets)."),
    Option(
        "topic",
        "A topic, or some of its partitions as TOPIC:0,1,2; may be repeated (--reset-offsets,"
        " --delete-offsets).",
        argument="topic",
    ),
    Option("all-topics", "All partitions with a committed offset (--reset-offsets)."),
    Option("offsets", "Describe the offsets of each partition; the default of --describe."),
    Option("members", "Describe the members."),
    Option(
        "state",
        "With --describe: the state of groups. With --list: print the states, or list "
        "only groups in these states.",
        argument="states",
        is_argument_optional=True,
    ),
    Option(
        "type",
        "With --list: print the types of groups, or list only groups of these types.",
        argument="types",
        is_argument_optional=True,
    ),
    Option("verbose", "Print more columns."),
    TIMEOUT,
    Option(
        "dry-run", "Print the new offsets without changing anything; the default without --execute."
    ),
    Option("execute", "Commit the new offsets."),
    *RESET_OPTIONS,
    Option(
        "validate-regex",
        "Check whether a regular expression is valid for RE2, which subscriptions of KIP-848 use.",
        argument="regex",
    ),
)


def run(options: Options) -> int:
    """Run the action that the options select and return the exit code."""
    check_available(options, _AVAILABLE)
    _check_arguments(options)
    if sum(map(options.has, ACTIONS)) != 1:
        actions = ", ".join(f"--{action}" for action in ACTIONS)
        raise UsageError(f"Command must include exactly one action: {actions}")
    if options.has("validate-regex"):
        _validate_regex(options.value("validate-regex") or "")
        return 0
    return act_on_groups(options, _ON_CLUSTER, "consumer")


def _check_arguments(options: Options) -> None:
    """Reject invalid option combinations, in the order of Kafka's ConsumerGroupCommandOptions."""
    if not options.has("validate-regex"):
        options.required("bootstrap-server")
    has_groups = options.has("group") or options.has("all-groups")
    if options.has("describe"):
        _needs_groups("describe", has_groups)
        if sum(map(options.has, ("members", "offsets", "state"))) > 1:
            raise UsageError(
                "Option [describe] takes at most one of these options:"
                " [members], [offsets], [state]"
            )
        if options.value("state") is not None:
            raise UsageError("Option [describe] does not take a value for [state]")
    if options.has("delete"):
        _needs_groups("delete", has_groups)
        if options.has("topic"):
            raise UsageError(
                "The consumer does not support topic-specific offset deletion from a consumer"
                " group."
            )
    if options.has("delete-offsets") and not (options.has("group") and options.has("topic")):
        raise UsageError("Option [delete-offsets] takes the following options: [group], [topic]")
    if options.has("reset-offsets"):
        if options.has("dry-run") and options.has("execute"):
            message = "Option [reset-offsets] only accepts one of [execute] and [dry-run]"
            raise UsageError(message)
        if not options.has("dry-run") and not options.has("execute"):
            print(
                "WARN: No action will be performed as the --execute option is missing. In version"
                " 5.0, this command will require either --dry-run or --execute to be specified."
                " You should add the --dry-run option explicitly if you are scripting this command"
                " and want to keep the current default behavior without prompting.",
                file=sys.stderr,
            )
        _needs_groups("reset-offsets", has_groups)
        for way in WAYS:
            options.excludes(way, *(other for other in WAYS if other != way))
    options.excludes("group", "all-groups")
    options.excludes("group", "list")
    options.excludes("topic", "list", "describe")


def _needs_groups(action: str, has_groups: bool) -> None:
    if not has_groups:
        raise UsageError(f"Option [{action}] takes one of these options: [group], [all-groups]")


def _groups(client: Client, options: Options) -> list[str]:
    """Return the names of the selected groups. Raises ToolError."""
    if options.has("all-groups"):
        return [group.name for group in _listed(client)]
    return options.values("group")


def _listed(
    client: Client, states: list[str] | None = None, types: list[str] | None = None
) -> list[Listing]:
    try:
        return list_groups(client, states or (), types or ())
    except FAILURES as error:
        raise_wrapped(error, EXECUTION, RUNTIME)


def _list(client: Client, options: Options) -> None:
    has_type, has_state = options.has("type"), options.has("state")
    types = parse_list(options.value("type"), TYPES, "types")
    states = parse_list(options.value("state"), STATES, "state")
    groups = _listed(client, states, types)
    if not has_type and not has_state:
        for group in groups:
            print(group.name)
        return
    width = max([15, *(len(group.name) for group in groups)]) + 10
    rows = [
        Listing("GROUP", "STATE", "TYPE"),
        *(
            Listing(name, state or "Unknown", kind.capitalize() or "Unknown")
            for name, state, kind in groups
        ),
    ]
    for name, state, kind in rows:
        line = f"{name:<{width}}"
        line += f" {kind:<20}" if has_type else ""
        line += f" {state:<20}" if has_state else ""
        print(line)


def _describe(client: Client, options: Options) -> None:
    groups = read_groups(client, _groups(client, options))
    verbose = options.has("verbose")
    if options.has("members"):
        print_members(groups, verbose=verbose)
    elif options.has("state"):
        print_states(groups, verbose=verbose)
    else:
        print_offsets(client, groups, verbose=verbose)


def _delete(client: Client, options: Options) -> None:
    deleted: list[str] = []
    failed: dict[str, str] = {}
    for name in dict.fromkeys(_groups(client, options)):
        try:
            delete_group(client, name)
        except ClientError as error:
            failed[name] = f"{java_class(error)}: {error}"
        else:
            deleted.append(name)
    names = ", ".join(f"'{name}'" for name in deleted)
    print_deletions("consumer", names, failed)


def _reset(client: Client, options: Options) -> None:
    plans: dict[str, Plan] = {}
    for name in dict.fromkeys(_groups(client, options)):
        state = _state(client, name)
        if state not in ("Empty", DEAD):
            print(
                f"\nError: Assignments can only be reset if the group '{name}' is inactive, but"
                f" the current state is {state}."
            )
            plans[name] = {}
            continue
        plans[name] = plan = make_plan(client, options, name)
        if options.has("execute"):
            alter_offsets(client, name, plan)
    if options.has("export"):
        export_plans(plans, has_groups=len(options.values("group")) != 1)
    else:
        print_plans(plans)


def _state(client: Client, name: str) -> str:
    """Return the state of a group. A missing group is Dead: setting offsets creates the group."""
    try:
        return describe_group(client, name).state
    except ClientError as error:
        if error.code is ErrorCode.GROUP_ID_NOT_FOUND:
            return DEAD
        raise_wrapped(error, EXECUTION, RUNTIME)


def _delete_offsets(client: Client, options: Options) -> None:
    results: dict[Partition, ClientError | None] = {}
    partitions = selected_partitions(client, options.values("topic"), results)
    delete_group_offsets(client, options.value("group") or "", partitions, results)


def _validate_regex(pattern: str) -> None:
    """Print whether RE2 accepts a pattern."""
    try:
        check_regex(pattern)
    except InvalidRegexError as error:
        print(f"The regular expression `{pattern}` is invalid: {error}.")
    else:
        print(f"The regular expression `{pattern}` is valid.")


_ON_CLUSTER = {
    "list": _list,
    "describe": _describe,
    "delete": _delete,
    "reset-offsets": _reset,
    "delete-offsets": _delete_offsets,
}

TOOL = ToolSpec(
    "kafka-consumer-groups",
    OPTIONS,
    run,
    "This tool helps to list, describe, delete and manage the offsets of consumer groups.",
    print_thrown_by_main,
)
