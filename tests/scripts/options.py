"""The options listed by `--help` of each tool, for Kafka's tools and ours."""

from __future__ import annotations

import re

from tests.scripts.player import CLASSES, HERE, Tool

RECORDED = HERE / "options.json"
"""The options of Kafka's tools, by command line."""

CALLS = (
    *CLASSES,
    *(
        f"kafka-transactions {command}"
        for command in ("list", "describe", "describe-producers", "abort", "find-hanging")
    ),
    "kafka-transactions forceTerminateTransaction",
    *(
        f"kafka-cluster {command}"
        for command in ("cluster-id", "unregister", "unregister-controller", "list-endpoints")
    ),
    "kafka-cluster api-versions",
    *(
        f"kafka-features {command}"
        for command in ("describe", "upgrade", "downgrade", "disable", "version-mapping")
    ),
    "kafka-features feature-dependencies",
    *(
        f"kafka-metadata-quorum {command}"
        for command in ("describe", "add-controller", "remove-controller")
    ),
    *(
        f"kafka-storage {command}"
        for command in ("format", "info", "version-mapping", "feature-dependencies", "random-uuid")
    ),
)
# Tools with commands indent their options. Some print an option's short name first, others its
# value last.
_OPTION = re.compile(r"(?m)^(?:--|  -\w, --|  --)([a-z][\w.-]*)")


def listed_options(tool: Tool) -> dict[str, list[str]]:
    """Return the sorted options by command line."""
    listed = {}
    for call in CALLS:
        name, *command = call.split()
        outcome = tool(name, [*command, "--help"], "")
        listed[call] = sorted(set(_OPTION.findall(outcome.out + outcome.err)))
    return listed
