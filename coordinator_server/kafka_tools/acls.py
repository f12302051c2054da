"""kafka-acls.sh: add, remove and list ACLs (Kafka's AclCommand).

Resources and ACLs are printed in sorted order. Kafka prints them in hash table order.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import closing
from typing import Any, NamedTuple

from coordinator_server.client import Client, ClientError, check
from coordinator_server.kafka_tools.frame import (
    BOOTSTRAP_SERVER,
    COMMAND_CONFIG,
    EXECUTION,
    FAILURES,
    Failure,
    ToolError,
    ToolSpec,
    connect,
    parse_principal,
    print_stack_trace,
    print_with_usage,
    raise_wrapped,
)
from coordinator_server.kafka_tools.options import (
    Option,
    Options,
    OptionsError,
    UsageError,
)
from coordinator_server.security.acl import (
    CLUSTER_NAME,
    SUPPORTED_OPERATIONS,
    WILDCARD,
    Acl,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
    from_code,
)

_ACTIONS = ("add", "remove", "list")
_OPERATIONS = {operation.name.replace("_", ""): operation for operation in Operation}
_PATTERN_TYPES = {kind.name: kind for kind in PatternType if kind is not PatternType.UNKNOWN}
_RESOURCES = (
    ("topic", ResourceType.TOPIC),
    ("group", ResourceType.GROUP),
    ("transactional-id", ResourceType.TRANSACTIONAL_ID),
    ("delegation-token", ResourceType.DELEGATION_TOKEN),
    ("user-principal", ResourceType.USER),
)

OPTIONS = (
    BOOTSTRAP_SERVER,
    Option(
        "bootstrap-controller",
        "Not supported: connect to brokers.",
        argument="controller to connect to",
        instead="every broker accepts ACL changes; use --bootstrap-server",
    ),
    COMMAND_CONFIG._replace(argument="command-config", is_argument_optional=True),
    Option("add", "Add ACLs."),
    Option("remove", "Remove ACLs."),
    Option("list", "List the ACLs of the given resources, or of all resources."),
    Option("topic", "A topic; '*' means all topics.", argument="topic"),
    Option("group", "A group; '*' means all groups.", argument="group"),
    Option("cluster", "The cluster as a resource."),
    Option("transactional-id", "A transactional id; '*' means all.", argument="transactional-id"),
    Option(
        "delegation-token",
        "The id of a delegation token; '*' means all.",
        argument="delegation-token",
    ),
    Option(
        "user-principal",
        "A user as a resource: permission to create or describe tokens of this user.",
        argument="user-principal",
    ),
    Option(
        "resource-pattern-type",
        "The pattern type of resource names: literal or prefixed. --list and --remove "
        "also accept any (this exact name with any pattern type) and match (all ACLs "
        "that apply to the resource).",
        argument="ANY|MATCH|LITERAL|PREFIXED",
        default="LITERAL",
    ),
    Option(
        "operation",
        "What is allowed or denied: "
        + ", ".join(
            operation.name.title().replace("_", "") for operation in Operation if operation > 1
        ),
        argument="String",
        default="All",
    ),
    Option(
        "allow-principal", "The principal to allow, such as User:alice.", argument="allow-principal"
    ),
    Option(
        "deny-principal",
        "The principal to deny. A denial overrides every allow rule.",
        argument="deny-principal",
    ),
    Option(
        "allow-host",
        "The host from which allowed principals have access (default: every host).",
        argument="allow-host",
    ),
    Option(
        "deny-host",
        "The host from which denied principals have no access (default: every host).",
        argument="deny-host",
    ),
    Option(
        "principal",
        "With --list: list only the ACLs of this principal.",
        argument="principal",
        is_argument_optional=True,
    ),
    Option("producer", "The permissions of a producer: Write, Describe and Create on topics."),
    Option(
        "consumer", "The permissions of a consumer: Read and Describe on topics, Read on the group."
    ),
    Option("idempotent", "With --producer: also IdempotentWrite on the cluster."),
    Option("force", "Remove ACLs without asking for confirmation."),
)


class AclResource(NamedTuple):
    """The resource of an ACL, or a resource filter (ResourcePattern, ResourcePatternFilter)."""

    kind: ResourceType
    name: str
    pattern_type: PatternType

    def __str__(self) -> str:
        kind, pattern_type = self.kind.name, self.pattern_type.name
        return f"ResourcePattern(resourceType={kind}, name={self.name}, patternType={pattern_type})"


class Entry(NamedTuple):
    """Principal, host, operation and permission of an ACL (AccessControlEntry)."""

    principal: str
    host: str
    operation: Operation
    permission: Permission

    def __str__(self) -> str:
        return (
            f"(principal={self.principal}, host={self.host}, operation={self.operation.name},"
            f" permissionType={self.permission.name})"
        )

    def of(self, resource: AclResource) -> Acl:
        """Return the ACL that applies this entry to a resource."""
        return Acl(*resource, self.principal, self.host, self.operation, self.permission)


Entries = dict[AclResource, set[Entry]]
_CLUSTER = AclResource(ResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL)


def run(options: Options) -> int:
    """Check the options and run the one action that they select."""
    _check(options)
    try:
        with closing(connect(options)) as client:
            (action,) = (name for name in _ACTIONS if options.has(name))
            {"add": _add, "remove": _remove, "list": _list}[action](client, options)
    except FAILURES as error:
        print(f"Error while executing ACL command: {error}")
        print_stack_trace(error, stream=sys.stdout)
        print()
        return 1
    return 0


def _check(options: Options) -> None:
    """Raise UsageError for options that cannot be combined (AclCommandOptions.checkArgs)."""
    if not options.has("bootstrap-server"):
        raise UsageError("One of --bootstrap-server or --bootstrap-controller must be specified")
    if sum(map(options.has, _ACTIONS)) != 1:
        raise UsageError("Command must include exactly one action: --list, --add, --remove. ")
    who = ("allow-host", "allow-principal", "deny-host", "deny-principal")
    options.excludes("list", "producer", "consumer", *who)
    for role in ("producer", "consumer"):
        options.excludes(role, "operation", "deny-principal", "deny-host")
    if options.has("principal") and not options.has("list"):
        raise UsageError("The --principal option is only available if --list is set")
    if options.has("producer") and not options.has("topic"):
        raise UsageError("With --producer you must specify a --topic")
    if options.has("idempotent") and not options.has("producer"):
        raise UsageError("The --idempotent option is only available if --producer is set")
    has_others = not options.has("producer") and (
        options.has("cluster") or options.has("transactional-id")
    )
    if options.has("consumer") and (
        not options.has("topic") or not options.has("group") or has_others
    ):
        raise UsageError(
            "With --consumer you must specify a --topic and a --group and no --cluster or"
            " --transactional-id option should be specified."
        )


def _add(client: Client, options: Options) -> None:
    pattern_type = _pattern_type(options)
    if pattern_type in (PatternType.ANY, PatternType.MATCH):
        raise UsageError(
            f"A '--resource-pattern-type' value of '{pattern_type.name}' is not valid when adding"
            " acls."
        )
    wanted = _entries(options)
    if not all(wanted.values()):
        raise UsageError(
            "You must specify one of: --allow-principal, --deny-principal when trying to add ACLs."
        )
    for resource, entries in sorted(wanted.items()):
        existing = _describe(client, resource).get(resource, set())
        for entry in sorted(entries & existing):
            print(f"Acl (pattern={resource}, entry={entry}) already exists.")
        if new := sorted(entries - existing):
            print(f"Adding ACLs for resource `{resource}`: \n {_lines(new)}\n")
            _create(client, [entry.of(resource) for entry in new])


def _remove(client: Client, options: Options) -> None:
    for resource, entries in sorted(_entries(options).items()):
        if entries:
            question = (
                f"Are you sure you want to remove ACLs: \n {_lines(sorted(entries))}\n"
                f" from resource filter `{resource}`? (y/n)"
            )
        else:
            question = (
                f"Are you sure you want to delete all ACLs for resource filter `{resource}`? (y/n)"
            )
        if options.has("force") or _confirmed(question):
            filters = [AclFilter(*entry.of(resource)) for entry in sorted(entries)]
            _delete(client, filters or [_all_of(resource)])


def _list(client: Client, options: Options) -> None:
    resources: Sequence[AclResource | None] = _resources(options) or [None]
    principals = sorted(set(map(parse_principal, options.values("principal"))))
    acls: Entries = {}
    for resource in resources:
        for resource_of_acl, entries in _describe(client, resource).items():
            acls.setdefault(resource_of_acl, set()).update(entries)
    if not principals:
        _print(acls)
    for principal in principals:
        print(f"ACLs for principal `{principal}`")
        _print(
            {
                resource: {entry for entry in entries if entry.principal == principal}
                for resource, entries in acls.items()
            }
        )


def _print(acls: Entries) -> None:
    for resource, entries in sorted(acls.items()):
        if entries:
            print(f"Current ACLs for resource `{resource}`:\n{_lines(sorted(entries))}\n")


def _lines(entries: Iterable[Entry]) -> str:
    return "\n".join(f"\t{entry}" for entry in entries)


def _entries(options: Options) -> Entries:
    """Return the ACLs that the options define, by resource; empty if no principal is given."""
    resources = _resources(options)
    if not resources:
        raise UsageError(
            "You must provide at least one resource: --topic <topic> or --cluster or --group"
            " <group> or --delegation-token <Delegation Token ID>"
        )
    entries: Entries = {}

    def take(kind: ResourceType, *operations: Operation) -> None:
        made = _made(options, operations)
        for resource in resources:
            if resource.kind is kind:
                entries.setdefault(resource, set()).update(made)

    if options.has("producer"):
        produce = (Operation.WRITE, Operation.DESCRIBE)
        take(ResourceType.TOPIC, *produce, Operation.CREATE)
        take(ResourceType.TRANSACTIONAL_ID, *produce)
        if options.has("idempotent"):
            entries[_CLUSTER] = _made(options, [Operation.IDEMPOTENT_WRITE])
    if options.has("consumer"):
        take(ResourceType.TOPIC, Operation.READ, Operation.DESCRIBE)
        take(ResourceType.GROUP, Operation.READ)
    if not options.has("producer") and not options.has("consumer"):
        operations = [
            _OPERATIONS.get(text.strip().upper(), Operation.UNKNOWN)
            for text in options.values("operation")
        ]
        entries = dict.fromkeys(resources, _made(options, operations))
    for resource, made in entries.items():
        valid = (Operation.ALL, *SUPPORTED_OPERATIONS[resource.kind])
        if any(entry.operation not in valid for entry in made):
            names = ", ".join(operation.name for operation in valid)
            raise UsageError(
                f"ResourceType {resource.kind.name} only supports operations [{names}]"
            )
    return entries


def _made(options: Options, operations: Sequence[Operation]) -> set[Entry]:
    """Return the entries for the principals and hosts in the options."""
    made = set()
    for word, permission in (("allow", Permission.ALLOW), ("deny", Permission.DENY)):
        principals = {parse_principal(text) for text in options.values(f"{word}-principal")}
        hosts = {text.strip() for text in options.values(f"{word}-host")} or {WILDCARD}
        made |= {
            Entry(principal, host, operation, permission)
            for principal in principals
            for host in hosts
            for operation in operations
        }
    return made


def _resources(options: Options) -> list[AclResource]:
    """Return the resources in the options. For a filter these are the resources to match."""
    pattern_type = _pattern_type(options)
    resources = {
        AclResource(
            kind, name if kind is ResourceType.TRANSACTIONAL_ID else name.strip(), pattern_type
        )
        for option, kind in _RESOURCES
        for name in options.values(option)
    }
    has_cluster = options.has("cluster") or options.has("idempotent")
    if has_cluster and pattern_type is PatternType.LITERAL:
        resources.add(_CLUSTER)
    return sorted(resources)


def _pattern_type(options: Options) -> PatternType:
    text = options.value("resource-pattern-type") or ""
    try:
        return _PATTERN_TYPES[text.upper()]
    except KeyError:
        raise OptionsError(
            "OptionArgumentConversionException",
            f"Cannot parse argument '{text}' of option resource-pattern-type",
        ) from None


def _confirmed(question: str) -> bool:
    print(question)
    if not sys.stdin.isatty():
        message = "there is no terminal to ask at; --force removes without a question"
        raise ToolError("java.lang.IllegalStateException", message)
    return sys.stdin.readline().strip().lower() == "y"


def _all_of(resource: AclResource | None) -> AclFilter:
    """Return a filter for all ACLs of a resource, or for all ACLs."""
    kind, name, pattern_type = resource or (ResourceType.ANY, None, PatternType.ANY)
    return AclFilter(kind, name, pattern_type, None, None, Operation.ANY, Permission.ANY)


def _describe(client: Client, resource: AclResource | None) -> Entries:
    """Return the existing ACLs of a resource, or of all resources, by resource."""
    from protocol.apis.describe_acls import DescribeAclsRequest

    response = _ask(client, "describeAcls", DescribeAclsRequest(**_fields(_all_of(resource))))
    acls: Entries = {}
    for described in response.resources:
        pattern_type = from_code(PatternType, described.pattern_type)
        key = AclResource(
            from_code(ResourceType, described.resource_type), described.resource_name, pattern_type
        )
        for acl in described.acls:
            operation = from_code(Operation, acl.operation)
            permission = from_code(Permission, acl.permission_type)
            acls.setdefault(key, set()).add(Entry(acl.principal, acl.host, operation, permission))
    return acls


def _create(client: Client, acls: Sequence[Acl]) -> None:
    from protocol.apis.create_acls import AclCreation, CreateAclsRequest

    creations = [
        AclCreation(
            resource_type=acl.resource_type,
            resource_name=acl.name,
            resource_pattern_type=acl.pattern_type,
            principal=acl.principal,
            host=acl.host,
            operation=acl.operation,
            permission_type=acl.permission,
        )
        for acl in acls
    ]
    request = CreateAclsRequest(creations=creations)
    _ask(client, "createAcls", request, lambda response: response.results)


def _delete(client: Client, filters: Sequence[AclFilter]) -> None:
    from protocol.apis.delete_acls import DeleteAclsFilter, DeleteAclsRequest

    request = DeleteAclsRequest(filters=[DeleteAclsFilter(**_fields(entry)) for entry in filters])
    _ask(
        client,
        "deleteAcls",
        request,
        lambda response: [
            outcome
            for result in response.filter_results
            for outcome in (result, *result.matching_acls)
        ],
    )


def _fields(wanted: AclFilter) -> Mapping[str, Any]:
    """Return a filter as fields of a request."""
    return {
        "resource_type_filter": wanted.resource_type,
        "resource_name_filter": wanted.name,
        "pattern_type_filter": wanted.pattern_type,
        "principal_filter": wanted.principal,
        "host_filter": wanted.host,
        "operation": wanted.operation,
        "permission_type": wanted.permission,
    }


def _ask(
    client: Client,
    call: str,
    request: Any,
    results: Callable[[Any], Collection[Any]] = lambda response: [response],
) -> Any:
    """Send a request to a broker; raise the first error in its results as Java's futures do."""

    def attempt() -> Any:
        response = client.ask(request)
        for result in results(response):
            check(result.error_code, result.error_message)
        return response

    try:
        return client.call(call, attempt)
    except ClientError as error:
        raise_wrapped(error, EXECUTION)


def _failed(error: Failure) -> int:
    """Print the parser's error and the usage."""
    return print_with_usage(error, OPTIONS)


TOOL = ToolSpec("kafka-acls", OPTIONS, run, "This tool helps to manage acls on kafka.", _failed)
