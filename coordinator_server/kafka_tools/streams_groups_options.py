"""The options of kafka-streams-groups.sh and their allowed combinations."""

from __future__ import annotations

from coordinator_server.kafka_tools.frame import BOOTSTRAP_SERVER, COMMAND_CONFIG
from coordinator_server.kafka_tools.group_commands import (
    RESET_OPTIONS,
    TIMEOUT,
    check_available,
    check_exclusive,
    names,
)
from coordinator_server.kafka_tools.options import Option, Options, UsageError
from coordinator_server.kafka_tools.reset_plan import WAYS

_ACTIONS = ("list", "describe", "delete", "reset-offsets", "delete-offsets")
_VIEWS = ("members", "offsets", "state", "topology")
_AVAILABLE = {
    "members": ("describe",),
    "offsets": ("describe",),
    "topology": ("describe",),
    "state": ("describe", "list"),
    "verbose": ("describe",),
}
OPTIONS = (
    BOOTSTRAP_SERVER,
    COMMAND_CONFIG,
    TIMEOUT,
    Option("list", "List the streams groups."),
    Option("describe", "Print the offsets, members, state or topology of streams groups."),
    Option("delete", "Delete streams groups and their offsets."),
    Option("reset-offsets", "Change the committed offsets of streams groups without members."),
    Option("delete-offsets", "Delete the committed offsets of a streams group for topics."),
    Option("group", "A streams group; may be repeated.", argument="group id"),
    Option("all-groups", "All streams groups (--describe, --delete, --reset-offsets)."),
    Option(
        "input-topic",
        "An input topic, or some of its partitions as TOPIC:0,1,2; may be repeated"
        " (--reset-offsets, --delete-offsets).",
        argument="topic",
    ),
    Option("all-input-topics", "All input topics (--reset-offsets, --delete-offsets)."),
    Option(
        "delete-internal-topic",
        "An internal topic to delete with --reset-offsets --execute; may be repeated.",
        argument="String",
    ),
    Option(
        "delete-all-internal-topics",
        "Also delete the internal topics (--delete, --reset-offsets --execute).",
    ),
    Option("offsets", "Describe the offsets of each partition; the default of --describe."),
    Option("members", "Describe the members."),
    Option("topology", "Print the topology that a plugin of the broker has recorded."),
    Option(
        "state",
        "With --describe: the state of groups. With --list: print the states, or list "
        "only groups in these states.",
        argument="String",
        is_argument_optional=True,
    ),
    Option("verbose", "Print more columns."),
    Option("dry-run", "Print the new offsets without changing anything."),
    Option("execute", "Commit the new offsets."),
    *RESET_OPTIONS,
)


def check_parsed(options: Options) -> None:
    """Raise OptionsError for options that are only available with other options."""
    check_available(options, _AVAILABLE)


def check_arguments(options: Options) -> None:
    """Raise UsageError or OptionsError for invalid combinations, in the order of Kafka's tool."""
    options.required("bootstrap-server")
    has_groups = options.has("group") or options.has("all-groups")
    has_topics = options.has("input-topic") or options.has("all-input-topics")
    if options.has("describe"):
        _needs_groups("describe", has_groups=has_groups)
        if sum(map(options.has, _VIEWS)) > 1:
            raise UsageError(
                f"Option [describe] takes at most one of these options: {names(_VIEWS)}"
            )
        if options.has("state") and options.value("state") is not None:
            raise UsageError("Option [describe] does not take a value for [state]")
    if options.has("delete"):
        _needs_groups("delete", has_groups=has_groups)
        if has_topics:
            raise UsageError(
                "Kafka Streams does not support topic-specific offset deletion from a streams"
                " group."
            )
    if options.has("delete-offsets"):
        if not has_topics or not options.has("group"):
            raise UsageError(
                "Option [delete-offsets] takes the [group] and one of these options:"
                " [all-input-topics], [input-topic]"
            )
        groups = options.values("group")
        if len(groups) > 1:
            raise UsageError(
                "Option [delete-offsets] supports only one [group] at a time, but found:"
                f" [{', '.join(groups)}]"
            )
    if options.has("reset-offsets"):
        _check_reset(options, has_groups=has_groups)
    _check_internal_topics(options)
    if not options.has("reset-offsets") and (options.has("dry-run") or options.has("execute")):
        raise UsageError("Only Option [reset-offsets] accepts [execute] or [dry-run]")
    options.excludes("list", "members", "offsets", "topology")
    options.excludes("group", "all-groups", "list")
    options.excludes("input-topic", "list", "describe", "delete")
    if sum(map(options.has, _ACTIONS)) != 1:
        actions = ", ".join(f"--{action}" for action in _ACTIONS[:-1])
        raise UsageError(
            f"Command must include exactly one action: {actions}, or --{_ACTIONS[-1]}."
        )


def _needs_groups(action: str, *, has_groups: bool) -> None:
    if not has_groups:
        scopes = names(("group", "all-groups"))
        raise UsageError(f"Option [{action}] takes one of these options: {scopes}")


def _check_reset(options: Options, *, has_groups: bool) -> None:
    if options.has("dry-run") and options.has("execute"):
        raise UsageError("Option [reset-offsets] only accepts one of [execute] and [dry-run]")
    if not options.has("dry-run") and not options.has("execute"):
        raise UsageError("Option [reset-offsets] takes the option: [execute] or [dry-run]")
    _needs_groups("reset-offsets", has_groups=has_groups)
    check_exclusive(options, WAYS)


def _check_internal_topics(options: Options) -> None:
    resets, executes = options.has("reset-offsets"), options.has("execute")
    if options.has("delete-all-internal-topics"):
        if not resets and not options.has("delete"):
            raise UsageError(
                "Option [delete-all-internal-topics] takes one of these options: [delete],"
                " [reset-offsets]"
            )
        if resets and not executes:
            raise UsageError(
                "Option [delete-all-internal-topics] takes [execute] when [reset-offsets] is used."
            )
    elif options.has("delete-internal-topic") and not (resets and executes):
        raise UsageError(
            "Option [delete-internal-topic] takes [reset-offsets] when [execute] is used."
        )
