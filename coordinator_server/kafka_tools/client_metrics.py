"""kafka-client-metrics.sh: manage client metrics subscriptions (Kafka's ClientMetricsCommand)."""

from __future__ import annotations

from collections.abc import Iterable
from io import StringIO
from secrets import token_bytes

from coordinator_server.client import Client, check
from coordinator_server.kafka_tools.config_requests import (
    CLIENT_METRICS,
    alter_configs,
    read_configs,
)
from coordinator_server.kafka_tools.frame import (
    BOOTSTRAP_SERVER,
    COMMAND_CONFIG,
    FAILURES,
    Failure,
    ToolError,
    ToolSpec,
    admin_client,
    illegal_argument,
    parse_integer,
    print_stack_trace,
    print_uncaught,
    print_with_usage,
    read_properties,
)
from coordinator_server.kafka_tools.java import log, uuid_text
from coordinator_server.kafka_tools.options import Option, Options, OptionsError, UsageError

OPTIONS = (
    BOOTSTRAP_SERVER,
    COMMAND_CONFIG,
    Option("alter", "Create or change a subscription."),
    Option("delete", "Delete a subscription."),
    Option("describe", "Print the configs of subscriptions."),
    Option("list", "List the names of subscriptions."),
    Option("name", "The name of the subscription.", argument="name"),
    Option("generate-name", "Generate a name."),
    Option("interval", "Time between two pushes in ms.", argument="push interval"),
    Option(
        "match",
        "The clients that push, as 'k1=v1,k2=v2': patterns for client_id, "
        "client_instance_id, client_software_name, client_software_version, "
        "client_source_address and client_source_port.",
        argument="k1=v1,k2=v2",
    ),
    Option("metrics", "Prefixes of metric names: 'm1,m2'.", argument="m1,m2"),
)

_PURPOSE = "This tool helps to manipulate and describe client metrics configurations."
_ACTIONS = ("alter", "delete", "describe", "list")
_CHANGES = ("generate-name", "interval", "match", "metrics")
_UNREADABLE = ("UnrecognizedOptionException", "OptionMissingRequiredArgumentException")


def run(options: Options) -> int:
    """Change or show client metrics subscriptions."""
    _check(options)
    path = options.value("command-config")
    properties = {} if path is None else read_properties(path)
    try:
        with admin_client(options.value("bootstrap-server") or "", properties) as client:
            if options.has("alter"):
                _alter(client, options)
            elif options.has("describe"):
                _describe(client, options)
            elif options.has("delete"):
                _delete(client, options)
            else:
                print("\n".join(_names(client)))
    except FAILURES as error:
        return _print_failure(error)
    return 0


def _check(options: Options) -> None:
    """Reject invalid option combinations, in the order of Kafka's ClientMetricsCommandOptions."""
    if sum(map(options.has, _ACTIONS)) != 1:
        raise UsageError(
            "Command must include exactly one action: --alter, --delete, --describe or --list."
        )
    if not options.has("bootstrap-server"):
        illegal_argument("--bootstrap-server must be specified.")
    options.excludes("delete", *_CHANGES)
    options.excludes("describe", *_CHANGES)
    options.excludes("list", "name", *_CHANGES)
    if options.has("alter") and options.has("name") == options.has("generate-name"):
        illegal_argument("One of --name or --generate-name must be specified with --alter.")
    if options.has("delete") and not options.has("name"):
        illegal_argument("A client metrics resource name must be specified with --delete.")
    interval = options.value("interval")
    if interval:
        try:
            parse_integer(interval)
        except ToolError:
            illegal_argument("Invalid interval value. Enter an integer, or leave empty to reset.")


def _alter(client: Client, options: Options) -> None:
    is_generated = options.has("generate-name")
    name = uuid_text(token_bytes(16)) if is_generated else options.value("name")
    assert name is not None
    configs = {}
    if options.has("interval"):
        configs["interval.ms"] = options.value("interval") or ""
    for option in ("metrics", "match"):
        if options.has(option):
            configs[option] = _joined(options.values(option))
    _change(client, name, configs)
    print(f"Altered client metrics config for {name}.")


def _delete(client: Client, options: Options) -> None:
    name = options.value("name")
    assert name is not None
    _change(
        client,
        name,
        {config.name: "" for config in read_configs(client, CLIENT_METRICS, [name])[name]},
    )
    print(f"Deleted client metrics config for {name}.")


def _describe(client: Client, options: Options) -> None:
    name, known = options.value("name"), _names(client)
    if name is not None and name not in known:
        print(f"The client metric resource {name} doesn't exist and doesn't have dynamic config.")
        return
    for resource in known if name is None else [name]:
        print(f"Client metrics configs for {resource} are:")
        for config in read_configs(client, CLIENT_METRICS, [resource])[resource]:
            print(f"  {config.name}={config.value}")


def _change(client: Client, name: str, configs: dict[str, str]) -> None:
    """Set configs and delete those with an empty value. Raises ClientError."""
    changes = [(key, value or None) for key, value in configs.items()]
    alter_configs(client, CLIENT_METRICS, {name: changes})


def _names(client: Client) -> list[str]:
    from protocol.apis.list_config_resources import ListConfigResourcesRequest

    request = ListConfigResourcesRequest(resource_types=[CLIENT_METRICS])
    # ListConfigResources 0 lists client metrics only.
    answer = client.call("listConfigResources", lambda: client.ask(request, min_version=0))
    check(answer.error_code)
    return [resource.resource_name for resource in answer.config_resources]


def _joined(values: Iterable[str]) -> str:
    """Return the comma-separated items of all values; joptsimple drops empty items."""
    return ",".join(item for value in values for item in value.split(",") if item)


def _print_failure(error: Failure) -> int:
    print(f"Error while executing client metrics command : {error}")
    trace = StringIO()
    print_stack_trace(error, stream=trace)
    log("ERROR", trace.getvalue(), "org.apache.kafka.tools.ClientMetricsCommand")
    return 1


def _failed(error: Failure) -> int:
    """Print an error in the arguments, with the usage if the arguments cannot be parsed."""
    if isinstance(error, OptionsError) and error.java_class.endswith(_UNREADABLE):
        return print_with_usage(error, OPTIONS)
    return print_uncaught(error)


TOOL = ToolSpec("kafka-client-metrics", OPTIONS, run, _PURPOSE, _failed)
