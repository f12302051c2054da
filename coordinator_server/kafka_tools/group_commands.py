"""Shared parts of the tools for consumer groups, share groups and streams groups."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing
from typing import TypeVar

from coordinator_server.client import Client, ClientError, ClientSettings
from coordinator_server.kafka_tools.frame import (
    FAILURES,
    ToolError,
    connect,
    java_class,
    print_stack_trace,
    raise_wrapped,
)
from coordinator_server.kafka_tools.groups_description import LEAST_WIDTH, MISSING, print_table
from coordinator_server.kafka_tools.groups_read import Listing, Partition, delete_offsets
from coordinator_server.kafka_tools.log_offsets import RUNTIME, parse_partitions, topic_partitions
from coordinator_server.kafka_tools.options import Option, Options, OptionsError, UsageError
from coordinator_server.kafka_tools.reset_plan import Plan
from protocol.errors import ErrorCode

T = TypeVar("T")

Action = Callable[[Client, Options], object]

TIMEOUT = Option(
    "timeout",
    "The timeout in ms.",
    argument="timeout (ms)",
    kind="long",
    default="30000",
)
RESET_OPTIONS = (
    Option("export", "Print the new offsets as CSV, for --from-file."),
    Option("to-earliest", "Reset to the start of each log."),
    Option("to-latest", "Reset to the end of each log."),
    Option("to-current", "Reset to the committed offset, or to the end of the log without one."),
    Option("to-offset", "Reset to this offset.", argument="offset", kind="long"),
    Option(
        "shift-by",
        "Move the offset forward by this number, or backward if the number is negative.",
        argument="number-of-offsets",
        kind="long",
    ),
    Option(
        "to-datetime",
        "Reset to the first record at or after YYYY-MM-DDThh:mm:ss.sss; UTC unless a "
        "zone is given.",
        argument="datetime",
    ),
    Option(
        "by-duration",
        "Reset to the first record within this duration before now, in the form PnDTnHnMnS.",
        argument="duration",
    ),
    Option("from-file", "Reset to the offsets of a CSV file.", argument="path to CSV file"),
)
"""The options that define the target of --reset-offsets; share groups lack two of them."""


def connect_for_groups(options: Options) -> Client:
    """Return the client for `--bootstrap-server`, with `--timeout` as the limit of each call.

    Raises ToolError, OptionsError, UnsupportedSettingError.
    """
    timeout_ms = options.integer("timeout") or 0
    try:
        client = connect(options, settings=ClientSettings(default_api_timeout_ms=timeout_ms))
    except ToolError as error:
        # A Java exception: the properties file cannot be read.
        if error.java_class.startswith("java."):
            raise_wrapped(error, RUNTIME)
        raise
    # As in Kafka, `--timeout` takes precedence over the properties file.
    client.settings = client.settings._replace(default_api_timeout_ms=timeout_ms)
    return client


def act_on_groups(options: Options, actions: Mapping[str, Action], kind: str) -> int:
    """Connect, run the action that the options select, and return the exit code.

    Like Kafka's tools, returns 0 even if a broker refuses; the error is printed.
    """
    try:
        with closing(connect_for_groups(options)) as client:
            selected(options, actions)(client, options)
    except FAILURES as error:
        print(f"\nError: Executing {kind} group command failed due to {error}")
        print_stack_trace(error)
    return 0


def selected(options: Options, actions: Mapping[str, T]) -> T:
    """Return the one action that the options select."""
    (name,) = filter(options.has, actions)
    return actions[name]


def check_available(options: Options, actions: Mapping[str, Sequence[str]]) -> None:
    """Reject options that belong to another action, as joptsimple does while it parses.

    `actions` maps an option to the actions that allow the option. Raises OptionsError.
    """
    for name, allowed in actions.items():
        if options.has(name) and not any(map(options.has, allowed)):
            raise OptionsError(
                "UnavailableOptionException",
                f"Option(s) [{name}] are unavailable given other options on the command line",
            )


def names(options: Collection[str]) -> str:
    """Return option names in the format of Kafka's tools: sorted, each in brackets."""
    return ", ".join(f"[{name}]" for name in sorted(options))


def check_exclusive(options: Options, alternatives: Collection[str]) -> None:
    """Raise UsageError if more than one of these options is given."""
    for name in alternatives:
        options.excludes(name, *(other for other in alternatives if other != name))


def parse_list(text: str | None, known: Sequence[str], what: str) -> list[str]:
    """Parse a list of states or types, ignoring case. Raises UsageError for unknown ones."""
    by_lower = {name.lower(): name for name in known}
    parts = [part.strip().lower() for part in text.split(",")] if text else []
    if not by_lower.keys() >= set(parts):
        plural = "types" if what == "types" else "states"
        raise UsageError(f"Invalid {what} list '{text}'. Valid {plural} are: {', '.join(known)}")
    return [by_lower[name] for name in parts]


def print_states(groups: Sequence[Listing]) -> None:
    """Print listed groups with their states."""
    width = max([LEAST_WIDTH, *(len(group.name) for group in groups)])
    print(f"{'GROUP':<{width}} STATE")
    for group in groups:
        print(f"{group.name:<{width}} {group.state or 'Unknown'}")


def export_plans(plans: Mapping[str, Plan], *, has_groups: bool) -> None:
    """Print the new offsets of groups as CSV that `--from-file` can read."""
    import csv

    writer = csv.writer(sys.stdout, lineterminator="\n")
    for name, plan in plans.items():
        for (topic, index), offset in plan.items():
            row = (topic, index, offset)
            writer.writerow((name, *row) if has_groups else row)
    print()


def print_plans(plans: Mapping[str, Plan]) -> None:
    """Print the new offsets of groups as a table; without groups print an empty line."""
    group_width = max([LEAST_WIDTH, *map(len, plans)])
    topic_width = max([LEAST_WIDTH, *(len(topic) for plan in plans.values() for topic, _ in plan)])
    rows: list[tuple[str, str, object, object]] = [("GROUP", "TOPIC", "PARTITION", "NEW-OFFSET")]
    for name, plan in plans.items():
        rows += ((name, topic, index, offset) for (topic, index), offset in plan.items())
    print_table(rows if plans else (), (group_width, topic_width, 10))


def print_deletions(kind: str, listed: str, failed: Mapping[str, str], *, end: str = "") -> None:
    """Print the deleted groups of a kind (`listed`, in quotes) and the errors of the others.

    `end` is printed after the names if any deletion failed.
    """
    if not failed:
        print(f"Deletion of requested {kind} groups ({listed}) was successful.")
        return
    print(f"\nError: Deletion of some {kind} groups failed:")
    for name, reason in failed.items():
        print(f"* Group '{name}' could not be deleted due to: {reason}")
    if listed.strip("'"):
        print(f"\nThese {kind} groups were deleted successfully: {listed}{end}")


def selected_partitions(
    client: Client, texts: Sequence[str], results: dict[Partition, ClientError | None]
) -> list[Partition]:
    """Parse partitions like TOPIC or TOPIC:0,1. Raises UsageError.

    The error of a topic is put into `results` under its partition -1.
    """
    partitions, topics = parse_partitions(texts)
    for topic in dict.fromkeys(topics):
        try:
            partitions += topic_partitions(client, [topic])
        except ClientError as error:
            results[topic, -1] = error
    return partitions


def delete_group_offsets(
    client: Client,
    name: str,
    partitions: Collection[Partition],
    results: dict[Partition, ClientError | None],
) -> None:
    """Delete committed offsets of a group; print each partition's result and `results`."""
    failure: ClientError | None = None
    try:
        deleted = delete_offsets(client, name, partitions)
        failure = next(filter(None, deleted.values()), None)
    except ClientError as error:
        failure, deleted = error, dict.fromkeys(partitions, error)
    if failure is None:
        print(f"Request succeeded for deleting offsets from group {name}.")
    elif failure.code in (
        ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ):
        print("\nError: Encountered some partition-level error, see the follow-up details.")
    elif failure.code in (
        ErrorCode.INVALID_GROUP_ID,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.NON_EMPTY_GROUP,
    ):
        print(f"\nError: {failure.code.message}")
    else:
        print(f"\nError: Encountered some unknown error: {failure.code.name}")
    rows = results | deleted
    width = max([LEAST_WIDTH, *(len(topic) for topic, _ in rows)])
    print(f"\n{'TOPIC':<{width}} {'PARTITION':<10} {'STATUS':<15}", end="")
    for (topic, index), reason in sorted(rows.items(), key=lambda row: row[0]):
        number = MISSING if index < 0 else str(index)
        status = "Successful" if reason is None else f"Error: {java_class(reason)}: {reason}"
        print(f"\n{topic:<{width}} {number:<10} {status:<15}", end="")
    print()
