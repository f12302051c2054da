"""kafka-configs.sh: show and change settings of topics, brokers and groups (Kafka's ConfigCommand).

Quotas and credentials are in `quotas`. Topics and groups are listed in sorted order; Kafka lists
them in hash table order.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from contextlib import closing

from coordinator_server.client import Client, ClientError, check
from coordinator_server.kafka_tools import quotas
from coordinator_server.kafka_tools.config_requests import (
    BROKER,
    BROKER_LOGGER,
    CLIENT_METRICS,
    GROUP,
    SOURCES,
    TOPIC,
    alter_configs,
    read_configs,
)
from coordinator_server.kafka_tools.filters import known_topics
from coordinator_server.kafka_tools.frame import (
    BOOTSTRAP_SERVER,
    COMMAND_CONFIG,
    EXECUTION,
    FAILURES,
    Failure,
    NotHereError,
    ToolError,
    ToolSpec,
    connect,
    illegal_argument,
    invalid_config,
    java_class,
    parse_integer,
    read_properties,
)
from coordinator_server.kafka_tools.options import Option, Options, OptionsError, UsageError
from protocol.errors import ErrorCode

KINDS = {
    "topics": (TOPIC, "DYNAMIC_TOPIC_CONFIG"),
    "brokers": (BROKER, "DYNAMIC_BROKER_CONFIG"),
    "broker-loggers": (BROKER_LOGGER, None),
    "client-metrics": (CLIENT_METRICS, "DYNAMIC_CLIENT_METRICS_CONFIG"),
    "groups": (GROUP, "DYNAMIC_GROUP_CONFIG"),
}
"""The resource type and the config source of each entity type."""

WITH_DEFAULTS = ("users", "clients", "brokers", "ips")
TYPES = (
    "broker-loggers", "topics", "clients", "users", "brokers", "ips", "client-metrics", "groups",
)  # fmt: skip
FLAGS = {
    "topic": "topics",
    "client": "clients",
    "user": "users",
    "broker": "brokers",
    "broker-logger": "broker-loggers",
    "ip": "ips",
    "client-metrics": "client-metrics",
    "group": "groups",
}
DEFAULT_FLAGS = {
    "client-defaults": "clients",
    "user-defaults": "users",
    "broker-defaults": "brokers",
    "ip-defaults": "ips",
}
_OUTSIDE_BRACKETS = r"(?=[^\]]*(?:\[|$))"
_TERSE = ("java.lang.IllegalArgumentException", "InvalidConfigurationException")

OPTIONS = (
    BOOTSTRAP_SERVER,
    Option(
        "bootstrap-controller",
        "Not supported: connect to brokers.",
        argument="controller to connect to",
    ),
    COMMAND_CONFIG,
    Option("alter", "Change settings."),
    Option("describe", "Print settings."),
    Option("all", "Print all settings, not only the settings of the entity itself."),
    Option("entity-type", f"What has the settings: {'/'.join(TYPES)}.", argument="entity-type"),
    Option(
        "entity-name",
        "The name of the entity: a topic name, a broker id, a group id, ...",
        argument="name",
    ),
    Option("entity-default", "The defaults of an entity type; replaces --entity-name."),
    Option(
        "add-config",
        "The settings to set: k1=v1,k2=[v1,v2],k3=v3. Values with commas need brackets.",
        argument="settings",
    ),
    Option("add-config-file", "A properties file with settings to set.", argument="file"),
    Option("delete-config", "The settings to reset to their defaults: k1,k2.", argument="names"),
    *(
        Option(name, f"Short for --entity-type {kind} --entity-name.", argument="name")
        for name, kind in FLAGS.items()
    ),
    *(
        Option(name, f"Short for --entity-type {kind} --entity-default.")
        for name, kind in DEFAULT_FLAGS.items()
    ),
)


def run(options: Options) -> int:
    """Run the action that the options select and return the exit code."""
    types, names = _types(options), _names(options)
    _check_arguments(options, types, names)
    if options.has("bootstrap-controller"):
        raise NotHereError("--bootstrap-controller: use --bootstrap-server, of any broker")
    try:
        with closing(connect(options)) as client:
            if options.has("alter"):
                _alter(client, options, types, names)
            elif types[0] in quotas.ENTITIES:
                quotas.describe(client, types, names)
            else:
                _describe(client, types[0], names[:1], everything=options.has("all"))
    except FAILURES as error:
        return _print_failure(error, options.arguments)
    return 0


def _print_failure(error: Failure, arguments: Sequence[str]) -> int:
    """Print an error: usage errors as a message, exceptions of Java's client with their class."""
    name = java_class(error)
    if not isinstance(error, ClientError) and (
        isinstance(error, OptionsError) or name.endswith(_TERSE)
    ):
        print(error, file=sys.stderr)
        return 1
    line = f"{name}: {error}"
    print(
        f"Error while executing config command with args '{' '.join(arguments)}'",
        file=sys.stderr,
    )
    if isinstance(error, ClientError):
        print(f"{EXECUTION}: {line}", file=sys.stderr)
        print(f"Caused by: {line}", file=sys.stderr)
    else:
        print(line, file=sys.stderr)
        if isinstance(error.__cause__, ToolError):
            cause = error.__cause__
            print(f"Caused by: {cause.java_class}: {cause}", file=sys.stderr)
    return 1


def _types(options: Options) -> list[str]:
    flags = (FLAGS | DEFAULT_FLAGS).items()
    return options.values("entity-type") + [kind for name, kind in flags if options.has(name)]


def _names(options: Options) -> list[str]:
    """Return the sorted names of the entities; a default entity has an empty name."""
    named = iter(options.values("entity-name"))
    names = []
    for name in options.order:
        if name == "entity-name":
            names.append(next(named))
        elif name == "entity-default":
            names.append("")
    names += [options.value(name) or "" for name in FLAGS if options.has(name)]
    return names + ["" for name in DEFAULT_FLAGS if options.has(name)]


def _check_arguments(options: Options, types: list[str], names: list[str]) -> None:
    """Reject invalid option combinations, in the order of Kafka's ConfigCommandOptions."""
    if options.has("alter") == options.has("describe"):
        raise UsageError("Command must include exactly one action: --describe, --alter")
    options.excludes("describe", "add-config", "delete-config")
    twice = [kind for kind in dict.fromkeys(types) if types.count(kind) > 1]
    if twice:
        illegal_argument(f"Duplicate entity type(s) specified: {','.join(twice)}")
    servers = options.has("bootstrap-server") + options.has("bootstrap-controller")
    if not servers:
        illegal_argument("Either --bootstrap-server or --bootstrap-controller must be specified.")
    if servers > 1:
        illegal_argument(
            "Only one of --bootstrap-server or --bootstrap-controller can be specified"
        )
    for kind in types:
        if kind not in TYPES:
            illegal_argument(
                f"Invalid entity type {kind}, the entity type must be one of {', '.join(TYPES)}"
                " with a --bootstrap-server or --bootstrap-controller argument"
            )
    if not types:
        illegal_argument("At least one entity type must be specified")
    if len(types) > 1 and set(types) != {"users", "clients"}:
        illegal_argument("Only 'users' and 'clients' entity types may be specified together")
    generic = any(map(options.has, ("entity-name", "entity-type", "entity-default")))
    if generic and any(map(options.has, FLAGS | DEFAULT_FLAGS)):
        illegal_argument(
            "--entity-{type,name,default} should not be used in conjunction with specific entity"
            " flags"
        )
    _check_names(options, types, names)


def _check_names(options: Options, types: list[str], names: list[str]) -> None:
    has_name, has_default = any(names), "" in names
    kind = types[0]
    if has_name and kind == "ips":
        for name in filter(None, names):
            _check_host(name)
    if has_name and kind in ("brokers", "broker-loggers"):
        for option in ("entity-name", "broker", "broker-logger"):
            if options.has(option):
                try:
                    parse_integer(options.value(option) or "")
                except ToolError:
                    illegal_argument(
                        f"The entity name for {kind} must be a valid integer broker id, but it"
                        f" is: {options.value(option)}"
                    )
    if options.has("describe"):
        if kind not in WITH_DEFAULTS and options.has("entity-default"):
            illegal_argument(f"--entity-default must not be specified with --describe of {kind}")
        if kind == "broker-loggers" and not has_name:
            illegal_argument(f"An entity name must be specified with --describe of {kind}")
    elif kind in WITH_DEFAULTS and not has_name and not has_default:
        illegal_argument(
            "An entity-name or default entity must be specified with --alter of users, clients,"
            " brokers or ips"
        )
    elif kind not in WITH_DEFAULTS and not has_name:
        illegal_argument(f"An entity name must be specified with --alter of {kind}")
    elif options.has("add-config") and options.has("add-config-file"):
        illegal_argument("Only one of --add-config or --add-config-file must be specified")
    elif not any(map(options.has, ("add-config", "add-config-file", "delete-config"))):
        illegal_argument(
            "At least one of --add-config, --add-config-file, or --delete-config must be specified"
            " with --alter"
        )


def _check_host(name: str) -> None:
    import socket

    try:
        socket.getaddrinfo(name, None)
    except OSError:
        illegal_argument(
            f"The entity name for ips must be a valid IP or resolvable host, but it is: {name}"
        )


def _alter(client: Client, options: Options, types: list[str], names: list[str]) -> None:
    if len(types) != len(names):
        illegal_argument("An entity name must be specified for every entity type")
    kind, name = types[0], names[0]
    added = _added(options)
    deleted = [key.strip() for text in options.values("delete-config") for key in text.split(",")]
    if kind in quotas.ENTITIES:
        quotas.alter(client, types, names, (added, deleted))
    else:
        _alter_resource(client, kind, name, added, deleted)
    if name:
        print(f"Completed updating config for {_singular(kind)} {name}.")
    else:
        print(f"Completed updating default config for {kind} in the cluster.")


def _alter_resource(
    client: Client, kind: str, name: str, added: dict[str, str], deleted: list[str]
) -> None:
    changes: list[tuple[str, str | None]] = [*added.items()]
    changes += [(key, None) for key in deleted]
    resource_type, _ = KINDS[kind]
    if resource_type == BROKER_LOGGER:
        _check_loggers(client, name, [key for key, _ in changes])
    alter_configs(client, resource_type, {name: changes})


def _check_loggers(client: Client, name: str, loggers: list[str]) -> None:
    known = {config.name for config in read_configs(client, BROKER_LOGGER, [name])[name]}
    wrong = [logger for logger in loggers if logger not in known]
    if wrong:
        invalid_config(f"Invalid broker logger(s): {','.join(wrong)}")


def _added(options: Options) -> dict[str, str]:
    """Return the settings from --add-config or --add-config-file. Raises ToolError."""
    path = options.value("add-config-file")
    added = {} if path is None else read_properties(path)
    text = options.value("add-config")
    if text is not None:
        for part in re.split(f",{_OUTSIDE_BRACKETS}", text):
            pair = re.split(rf"\s*=\s*{_OUTSIDE_BRACKETS}", part)
            if len(pair) != 2:
                illegal_argument(
                    "Invalid entity config: all configs to be added must be"
                    ' in the format "key=val" or  "key=[val1,val2]" to group values which contain'
                    " commas."
                )
            added[pair[0].strip()] = re.sub(r"\[?\]?", "", pair[1]).strip()
    for key in added:
        if not re.fullmatch("[$a-zA-Z0-9._-]*", key):
            illegal_argument(f"Invalid character found for config key: {key}")
    return added


def _describe(client: Client, kind: str, names: list[str], *, everything: bool) -> None:
    if kind == "topics" and names:
        _check_topic_name(names[0])
    if not names:
        entities = _all_names(client, kind)
    elif everything or _exists(client, kind, names[0]):
        entities = names
    else:
        print(f"The {_singular(kind)} '{names[0]}' doesn't exist and doesn't have dynamic config.")
        return
    for name in entities:
        if name:
            print(f"{'All' if everything else 'Dynamic'} configs for {_singular(kind)} {name} are:")
        else:
            print(f"Default configs for {kind} in the cluster are:")
        for line in _lines(client, kind, name, everything=everything):
            print(line)


def _lines(client: Client, kind: str, name: str, *, everything: bool) -> list[str]:
    """Return the settings of one entity as lines, each with the source of the value."""
    resource_type, source = KINDS[kind]
    if kind == "brokers" and not name:
        source = "DYNAMIC_DEFAULT_BROKER_CONFIG"
    lines = []
    configs = read_configs(client, resource_type, [name], synonyms=True)[name]
    for config in sorted(configs, key=lambda config: config.name):
        if not everything and source not in (None, SOURCES.get(config.config_source)):
            continue
        synonyms = ", ".join(
            f"{SOURCES.get(synonym.source, 'UNKNOWN')}:{synonym.name}={_text(synonym.value)}"
            for synonym in config.synonyms
        )
        sensitive = str(config.is_sensitive).lower()
        lines.append(
            f"  {config.name}={_text(config.value)} sensitive={sensitive} synonyms={{{synonyms}}}"
        )
    return lines


def _exists(client: Client, kind: str, name: str) -> bool:
    if kind in ("brokers", "broker-loggers"):
        client.call("describeCluster", lambda: client.metadata([]))
        return not name or int(name) in client.nodes
    if kind == "groups" and _with_settings(client, GROUP) is None:
        # The broker cannot list group configs; Kafka's tool then assumes that the group exists.
        return True
    if kind == "topics":
        return any(topic.name == name for topic in known_topics(client, name))
    return name in _all_names(client, kind)


def _all_names(client: Client, kind: str) -> list[str]:
    """Return the sorted names of the existing entities of a type; brokers include the default."""
    if kind == "topics":
        answer = client.call("listTopics", lambda: client.metadata(None))
        return sorted(topic.name for topic in answer.topics)
    if kind == "client-metrics":
        return _with_settings(client, CLIENT_METRICS) or []
    client.call("describeCluster", lambda: client.metadata([]))
    if kind == "brokers":
        return [*map(str, sorted(client.nodes)), ""]
    from protocol.apis.list_groups import ListGroupsRequest

    groups = set(_with_settings(client, GROUP) or ())
    for node_id in sorted(client.nodes):

        def ask(node_id: int = node_id) -> list[str]:
            answer = client.ask(ListGroupsRequest(), node_id)
            check(answer.error_code)
            return [group.group_id for group in answer.groups]

        groups.update(client.call("listGroups", ask))
    return sorted(groups)


def _with_settings(client: Client, resource_type: int) -> list[str] | None:
    """Return the resources of a type that have settings; None if the broker cannot list them."""
    from protocol.apis.list_config_resources import ListConfigResourcesRequest

    request = ListConfigResourcesRequest(resource_types=[resource_type])
    # ListConfigResources 0 lists client metrics only.
    least = 0 if resource_type == CLIENT_METRICS else 1
    try:
        answer = client.call("listConfigResources", lambda: client.ask(request, min_version=least))
    except ClientError as error:
        if error.code is ErrorCode.UNSUPPORTED_VERSION and resource_type == GROUP:
            return None
        raise
    check(answer.error_code)
    return sorted(resource.resource_name for resource in answer.config_resources)


def _check_topic_name(name: str) -> None:
    """Raise ToolError for an invalid topic name (Kafka's Topic.validate)."""
    if not name:
        reason = "the empty string is not allowed"
    elif name in (".", ".."):
        reason = f"'{name}' is not allowed"
    elif len(name) > 249:
        reason = f"the length of '{name}' is longer than the max allowed length 249"
    elif not re.fullmatch("[a-zA-Z0-9._-]+", name):
        reason = (
            f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_'"
            " and '-'"
        )
    else:
        return
    # Java raises InvalidTopicException, a subclass of InvalidConfigurationException.
    invalid_config(f"Topic name is invalid: {reason}")


def _singular(kind: str) -> str:
    return kind[:-1]


def _text(value: str | None) -> str:
    return "null" if value is None else value


def _failed(error: Failure) -> int:
    """Print a usage error and return exit code 1."""
    print(error, file=sys.stderr)
    return 1


TOOL = ToolSpec(
    "kafka-configs",
    OPTIONS,
    run,
    "This tool helps to manipulate and describe entity config for a topic, client, user, broker,"
    " ip, client-metrics or group",
    _failed,
)
