"""kafka-reassign-partitions.sh: move partitions between brokers (ReassignPartitionsCommand)."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import closing

from coordinator_server.client import Client, ClientSettings, UnsupportedSettingError
from coordinator_server.kafka_tools import reassign_start, reassign_state
from coordinator_server.kafka_tools.frame import (
    BOOTSTRAP_SERVER,
    COMMAND_CONFIG,
    FAILURES,
    NotHereError,
    ToolError,
    ToolSpec,
    connect,
    print_stack_trace,
    print_thrown_by_main,
)
from coordinator_server.kafka_tools.options import Option, Options, UsageError
from coordinator_server.kafka_tools.reassignments import TerseError

_REQUIRED = {
    "generate": ("topics-to-move-json-file", "broker-list"),
    "execute": ("reassignment-json-file",),
    "verify": ("reassignment-json-file",),
    "cancel": ("reassignment-json-file",),
    "list": (),
}
"""The actions, with the options that each action requires."""
_PERMITTED = {
    "generate": ("bootstrap-server", "disable-rack-aware"),
    "execute": (
        "bootstrap-server",
        "additional",
        "throttle",
        "replica-alter-log-dirs-throttle",
        "timeout",
        "disallow-replication-factor-change",
    ),
    "verify": ("bootstrap-server", "preserve-throttles"),
    "cancel": ("bootstrap-server", "bootstrap-controller", "preserve-throttles", "timeout"),
    "list": ("bootstrap-server", "bootstrap-controller"),
}

OPTIONS = (
    BOOTSTRAP_SERVER._replace(
        argument="Server(s) to use for bootstrapping", is_argument_optional=True
    ),
    Option(
        "bootstrap-controller",
        "The controllers to connect to, for --cancel and --list.",
        argument="bootstrap controller to connect to",
        is_argument_optional=True,
    ),
    COMMAND_CONFIG._replace(argument="Admin client property file"),
    Option("verify", "Print whether a reassignment is complete; if so, remove its throttles."),
    Option("generate", "Propose a reassignment, without executing it."),
    Option("execute", "Start a reassignment."),
    Option("cancel", "Cancel a running reassignment."),
    Option("list", "List all running reassignments."),
    Option(
        "reassignment-json-file",
        'A JSON file with a reassignment: {"partitions": [{"topic": "foo", '
        '"partition": 1, "replicas": [1,2,3], "log_dirs": ["dir1","any","dir3"]}], '
        '"version": 1}; log_dirs is optional.',
        argument="manual assignment json file path",
    ),
    Option(
        "topics-to-move-json-file",
        'A JSON file with topics: {"topics": [{"topic": "foo"},{"topic": "foo1"}], "version": 1}',
        argument="topics to reassign json file path",
    ),
    Option(
        "broker-list", "The broker ids for --generate, separated by commas.", argument="brokerlist"
    ),
    Option("disable-rack-aware", "Propose replicas without considering racks."),
    Option(
        "throttle",
        "The maximum bytes per second between brokers, at least 1 KB/s.",
        argument="throttle",
        kind="long",
        default="-1",
    ),
    Option(
        "replica-alter-log-dirs-throttle",
        "The maximum bytes per second between log directories of a broker, at least 1 KB/s.",
        argument="replicaAlterLogDirsThrottle",
        kind="long",
        default="-1",
    ),
    Option(
        "timeout",
        "How long to wait until moves between log directories have started, in ms.",
        argument="timeout",
        kind="long",
        default="10000",
    ),
    Option("additional", "Add to running reassignments, or change their throttle."),
    Option("preserve-throttles", "Do not change the throttles of brokers and topics."),
    Option(
        "disallow-replication-factor-change",
        "Fail if the reassignment changes the replication factor.",
    ),
)


def run(options: Options) -> int:
    """Run the action that the options select and return the exit code."""
    action = _action(options)
    if options.has("bootstrap-controller"):
        raise NotHereError("--bootstrap-controller: use --bootstrap-server, of any broker")
    try:
        if options.value("bootstrap-server") is None:
            raise ToolError("java.lang.NullPointerException", "")
        settings = ClientSettings(client_id="reassign-partitions-tool")
        with closing(connect(options, settings=settings)) as client:
            _ACTIONS[action](client, options)
    except TerseError as error:
        print(error)
    except UnsupportedSettingError:
        raise
    except FAILURES as error:
        print(f"Error: {str(error) or 'null'}")
        print_stack_trace(error, stream=sys.stdout)
        print()
    else:
        return 0
    return 1


def _action(options: Options) -> str:
    """Return the selected action. Raises UsageError for invalid option combinations."""
    actions = [action for action in _REQUIRED if options.has(action)]
    if len(actions) != 1:
        names = ", ".join(f"--{action}" for action in _REQUIRED)
        raise UsageError(f"Command must include exactly one action: {names}")
    servers = [options.has(f"bootstrap-{kind}") for kind in ("server", "controller")]
    if all(servers):
        raise UsageError("Please don't specify both --bootstrap-server and --bootstrap-controller")
    if not any(servers):
        raise UsageError("Please specify either --bootstrap-server or --bootstrap-controller")
    (action,) = actions
    options.required(*_REQUIRED[action])
    permitted = (action, "command-config", *_REQUIRED[action], *_PERMITTED[action])
    for name in options.order:
        if name not in permitted:
            raise UsageError(f'Option "[{name}]" can\'t be used with action "[{action}]"')
    return action


_ACTIONS: dict[str, Callable[[Client, Options], None]] = {
    "generate": reassign_start.generate,
    "execute": reassign_start.execute,
    "verify": reassign_state.verify,
    "cancel": reassign_state.cancel,
    "list": reassign_state.list_running,
}


TOOL = ToolSpec(
    "kafka-reassign-partitions",
    OPTIONS,
    run,
    "This tool helps to move topic partitions between replicas.",
    failed=print_thrown_by_main,
)
