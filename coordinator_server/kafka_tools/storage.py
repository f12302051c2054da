"""kafka-storage.sh: prints that no formatting is needed (Kafka's StorageTool).

Start scripts format the log directories before they start a broker; this broker creates them
itself. `random-uuid` works, because scripts use it to create a cluster id.
"""

from __future__ import annotations

import os

from coordinator_server.kafka_tools.frame import NotHereError, ToolSpec
from coordinator_server.kafka_tools.java import uuid_text
from coordinator_server.kafka_tools.options import Option, Options, UsageError

COMMANDS = ("info", "format", "version-mapping", "feature-dependencies", "random-uuid")
_NO_FORMAT = "accepted without effect, because data directories need no formatting."

OPTIONS = (
    Option("config", "The properties file of the broker (format, info).", argument="CONFIG"),
    Option("c", "Same as --config.", argument="CONFIG"),
    Option("cluster-id", f"The cluster id (format): {_NO_FORMAT}", argument="CLUSTER_ID"),
    Option("t", "Same as --cluster-id.", argument="CLUSTER_ID"),
    Option("ignore-formatted", f"(format) {_NO_FORMAT}"),
    Option("g", "Same as --ignore-formatted."),
    Option("release-version", f"(format) {_NO_FORMAT}", argument="RELEASE_VERSION"),
    Option("r", "Same as --release-version.", argument="RELEASE_VERSION"),
    Option("feature", f"(format) {_NO_FORMAT}", argument="FEATURE"),
    Option("f", "Same as --feature.", argument="FEATURE"),
    Option("standalone", f"(format) {_NO_FORMAT}"),
    Option("s", "Same as --standalone."),
    Option("no-initial-controllers", f"(format) {_NO_FORMAT}"),
    Option("N", "Same as --no-initial-controllers."),
    Option("initial-controllers", f"(format) {_NO_FORMAT}", argument="INITIAL_CONTROLLERS"),
    Option("I", "Same as --initial-controllers.", argument="INITIAL_CONTROLLERS"),
    Option(
        "add-scram",
        "SCRAM credentials (format).",
        argument="ADD_SCRAM",
        instead="credentials cannot be set before the broker runs",
    ),
    Option("S", "Same as --add-scram.", argument="ADD_SCRAM", instead="see --add-scram"),
)


def run(options: Options) -> int:
    """Run the command that the first argument names."""
    command = options.others[0] if options.others else ""
    if command == "random-uuid":
        print(random_uuid())
        return 0
    if command == "format":
        for long, short in (("cluster-id", "t"), ("config", "c")):
            if not options.has(long) and not options.has(short):
                raise UsageError(f"kafka-storage: error: argument --{long}/-{short} is required")
        print("Nothing to format: the broker makes its log directories when it starts.")
        return 0
    if command == "info":
        print("The broker makes its log directories when it starts; `verify-log` checks one.")
        return 0
    if command in COMMANDS:
        raise NotHereError(f"{command}: use the script of Apache Kafka, it asks no broker")
    raise UsageError(
        f"kafka-storage: error: invalid choice: '{command}' (choose from {', '.join(COMMANDS)})"
        if command
        else "kafka-storage: error: too few arguments"
    )


def random_uuid() -> str:
    """Return a random id like Kafka's Uuid.randomUuid: version 4, never starting with a hyphen."""
    while True:
        uuid = bytearray(os.urandom(16))
        uuid[6] = uuid[6] & 0x0F | 0x40
        uuid[8] = uuid[8] & 0x3F | 0x80
        text = uuid_text(bytes(uuid))
        if not text.startswith("-"):
            return text


TOOL = ToolSpec(
    "kafka-storage",
    OPTIONS,
    run,
    f"usage: kafka-storage {{{','.join(COMMANDS)}}} ...",
    help_is_output=True,
)
