"""kafka-groups.sh: list groups of all types, sorted by name (Kafka's GroupsCommand)."""

from __future__ import annotations

from contextlib import closing

from coordinator_server.kafka_tools.frame import (
    BOOTSTRAP_SERVER,
    COMMAND_CONFIG,
    FAILURES,
    Failure,
    ToolSpec,
    connect,
    illegal_argument,
    java_class,
    print_uncaught,
    print_with_usage,
    read_properties,
)
from coordinator_server.kafka_tools.groups_read import AnyListing, list_all_groups
from coordinator_server.kafka_tools.java import log
from coordinator_server.kafka_tools.options import (
    Option,
    Options,
    OptionsError,
    UsageError,
)

_LOGGER = "org.apache.kafka.tools.GroupsCommand"
_TYPES = ("classic", "consumer", "share", "streams")
_SERVER_MISSING = "Missing required option(s) [bootstrap-server]"
_REPEATED = "MultipleArgumentsForOptionException"
_WIDTH = 20

OPTIONS = (
    BOOTSTRAP_SERVER,
    COMMAND_CONFIG,
    Option("list", "List the groups."),
    Option("group-type", f"Only groups of a type: {', '.join(_TYPES)}.", argument="type"),
    Option("protocol", "List only groups with this protocol type.", argument="protocol"),
    Option(
        "consumer",
        "List only groups of the type consumer, and classic groups whose protocol type "
        "is consumer or empty.",
    ),
    Option("share", "List only share groups."),
    Option("streams", "List only streams groups."),
)


def run(options: Options) -> int:
    """Check the options and list the groups."""
    if not options.has("bootstrap-server"):
        raise UsageError(_SERVER_MISSING)
    if not options.has("list"):
        raise UsageError("Command must include exactly one action: --list.")
    group_type = options.value("group-type")
    if group_type is not None and group_type.lower() not in _TYPES:
        illegal_argument("--group-type must be a valid group type.")
    options.excludes("consumer", "group-type", "protocol", "share", "streams")
    options.excludes("share", "consumer", "group-type", "protocol", "streams")
    options.excludes("streams", "consumer", "group-type", "protocol", "share")
    config = options.value("command-config")
    if config is not None:
        # Report an unreadable properties file here, because the handler below does not catch this
        # error.
        read_properties(config)
    try:
        with closing(connect(options)) as client:
            groups = [group for group in list_all_groups(client) if _is_wanted(group, options)]
    except FAILURES as error:
        print(f"Error while executing groups command : {error}")
        log("ERROR", f"{java_class(error)}: {error}\n", _LOGGER)
        return 1
    _print(groups)
    return 0


def _is_wanted(group: AnyListing, options: Options) -> bool:
    group_type, protocol = options.value("group-type"), options.value("protocol")
    if group_type is not None:
        return group.kind.lower() == group_type.lower() and protocol in (None, group.protocol)
    if protocol is not None:
        return group.protocol == protocol
    if options.has("consumer"):
        return group.protocol in ("consumer", "") or group.kind.lower() == "consumer"
    for kind in ("share", "streams"):
        if options.has(kind):
            return group.kind.lower() == kind
    return True


def _print(groups: list[AnyListing]) -> None:
    rows = [(name, kind.capitalize(), protocol) for name, kind, protocol in groups]
    width = max([_WIDTH, *(len(text) for row in rows for text in row)])
    print(" ".join(f"{title:<{width}}" for title in ("GROUP", "TYPE", "PROTOCOL")))
    for row in rows:
        print("".join(f"{text:<{width}} " for text in row))


def _failed(error: Failure) -> int:
    """Print errors of the option parser with the usage, others as an exception."""
    if isinstance(error, OptionsError) and not error.java_class.endswith(_REPEATED):
        return print_with_usage(error, OPTIONS)
    return print_uncaught(error)


TOOL = ToolSpec(
    "kafka-groups",
    OPTIONS,
    run,
    "This tool helps to list groups of all types.",
    _failed,
    without_arguments=_SERVER_MISSING,
)
