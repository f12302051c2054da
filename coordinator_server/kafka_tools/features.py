"""kafka-features.sh: show and change feature levels (Kafka's FeatureCommand)."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from typing import Any, NoReturn

from coordinator_server.client import Client, ClientError, check
from coordinator_server.client.client import ANY_BROKER
from coordinator_server.kafka_tools.commands import INTEGER, CommandError, CommandTool, Parser
from coordinator_server.kafka_tools.frame import (
    FAILURES,
    ToolError,
    admin_client,
    parse_integer,
    read_properties,
)
from protocol.errors import ErrorCode

_NAME = "kafka-features"
_METADATA = "metadata.version"
_FIRST_LEVEL = 7
_VERSIONS = (
    *("3.3-IV3", "3.4-IV0", "3.5-IV0", "3.5-IV1", "3.5-IV2", "3.6-IV0", "3.6-IV1", "3.6-IV2"),
    *("3.7-IV0", "3.7-IV1", "3.7-IV2", "3.7-IV3", "3.7-IV4", "3.8-IV0", "3.9-IV0", "4.0-IV0"),
    *("4.0-IV1", "4.0-IV2", "4.0-IV3", "4.1-IV0", "4.1-IV1", "4.2-IV0", "4.2-IV1", "4.3-IV0"),
    *("4.4-IV0", "4.4-IV1", "4.4-IV2", "4.5-IV0"),
)
"""The metadata versions by level, starting at _FIRST_LEVEL (Kafka's MetadataVersion)."""
_LATEST = "4.4-IV2"
"""The latest production metadata version."""
_SINCE: dict[str, tuple[tuple[int, int], ...]] = {
    "kraft.version": ((21, 1),),
    "transaction.version": ((24, 2),),
    "group.version": ((22, 1),),
    "eligible.leader.replicas.version": ((26, 1),),
    "share.version": ((28, 1), (31, 2)),
    "streams.version": ((29, 1),),
}
"""The default levels of features, each since a metadata.version level."""
_MOST = {name: steps[-1][1] for name, steps in _SINCE.items()}
_REQUIRES = {("eligible.leader.replicas.version", 1): 23}
"""The metadata.version level that a feature level requires."""
_UPGRADE, _SAFE_DOWNGRADE, _UNSAFE_DOWNGRADE = 1, 2, 3
_TIMEOUT_MS = 60_000


class _Parser(Parser):
    """Prints an argument error on one line; `--help` exits with 0."""

    help_code = 0

    def error(self, message: str) -> NoReturn:
        """Exit with an error message."""
        print(f"Command line error: {message}. Type --help for help.", end="", file=sys.stderr)
        self.exit(1)


def parser() -> Parser:
    """Return the top-level parser, with the options of all commands."""
    top = _Parser(_NAME, "This tool manages feature flags in Kafka.")
    servers = top.add_mutually_exclusive_group()
    servers.add_argument("--bootstrap-server", metavar="host:port", help="bootstrap servers")
    servers.add_argument(
        "--bootstrap-controller", metavar="host:port", help="not supported: use --bootstrap-server"
    )
    top.add_argument(
        "--command-config", metavar="FILE", help="properties file with client settings"
    )
    return top


def commands() -> dict[str, Parser]:
    """Return the parser of each command, by name."""
    parsers: dict[str, Parser] = {}
    for name, text in (
        ("describe", "print the levels of all features"),
        ("upgrade", "raise feature levels"),
        ("downgrade", "lower feature levels"),
        ("disable", "set feature levels to 0"),
        ("version-mapping", "print the default feature levels of a release"),
        ("feature-dependencies", "print the features that a feature level requires"),
    ):
        command = parsers[name] = _Parser(f"{_NAME} {name}", text)
        if name == "describe":
            command.add_argument("--node-id", type=INTEGER, help="id of the broker that answers")
        if name in ("upgrade", "downgrade"):
            command.add_argument(
                "--metadata", metavar="VERSION", help="release or metadata version, such as 3.9-IV0"
            )
        if name in ("upgrade", "downgrade", "version-mapping"):
            command.add_argument(
                "--release-version",
                metavar="VERSION",
                help="release or metadata version, such as 3.9-IV0",
            )
        if name not in ("describe", "version-mapping"):
            is_required = name == "feature-dependencies"
            command.add_argument(
                "--feature",
                action="append",
                required=is_required,
                help="a feature, or FEATURE=LEVEL (repeatable)",
            )
        if name in ("downgrade", "disable"):
            command.add_argument(
                "--unsafe", action="store_true", help="downgrade even if metadata is lost"
            )
        if name in ("upgrade", "downgrade", "disable"):
            command.add_argument(
                "--dry-run",
                action="store_true",
                help="validate the request without changing anything",
            )
    return parsers


def run(options: argparse.Namespace) -> int:
    """Run a command and return the exit code."""
    try:
        if options.command == "version-mapping":
            _print_mapping(options.release_version)
        elif options.command == "feature-dependencies":
            _print_dependencies(options.feature)
        else:
            _ask(options)
    except FAILURES as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _ask(options: argparse.Namespace) -> None:
    if options.bootstrap_controller is not None:
        raise CommandError(f"{_NAME}: --bootstrap-controller: use --bootstrap-server")
    path = options.command_config
    properties = {} if path is None else read_properties(path)
    if options.bootstrap_server is None:
        parser().error("You must specify either --bootstrap-controller or --bootstrap-server.")
    with admin_client(options.bootstrap_server, properties) as client:
        if options.command == "describe":
            _describe(client, ANY_BROKER if options.node_id is None else int(options.node_id))
        else:
            _update(client, options)


# --- commands without a broker --------------------------------------------------------------------


def _level(version: str) -> int | None:
    """Return the metadata level of a version such as 3.9, 3.9.1 or 3.9-IV0; None if unknown."""
    if "-" in version:
        return _FIRST_LEVEL + _VERSIONS.index(version) if version in _VERSIONS else None
    release = ".".join(version.split(".")[:2])
    stable = _VERSIONS[: _VERSIONS.index(_LATEST) + 1]
    levels = [
        level
        for level, stable_version in enumerate(stable, _FIRST_LEVEL)
        if stable_version.split("-")[0] == release
    ]
    return levels[-1] if levels else None


def _defaults(level: int) -> dict[str, int]:
    """Return each feature's default level at a metadata.version level."""
    return {
        name: max((own for since, own in steps if since <= level), default=0)
        for name, steps in _SINCE.items()
    }


def _unknown_version(version: str) -> CommandError:
    known = ", ".join(_VERSIONS)
    text = f"Unknown metadata.version '{version}'. Supported metadata.version are: {known}"
    return CommandError(text)


def _print_mapping(version: str | None) -> None:
    version = _LATEST if version is None else version
    level = _level(version)
    if level is None:
        raise _unknown_version(version)
    print(f"{_METADATA}={level} ({version})")
    for name, own in _defaults(level).items():
        print(f"{name}={own}")


def _print_dependencies(features: list[str]) -> None:
    for feature in features:
        name, level = _name_and_level(feature)
        if name == _METADATA:
            if not _FIRST_LEVEL <= level < _FIRST_LEVEL + len(_VERSIONS):
                raise CommandError(f"Unknown metadata.version {level}")
        elif name not in _MOST:
            raise CommandError(f"Unknown feature: {name}")
        elif not 0 <= level <= _MOST[name]:
            raise CommandError(f"No feature:{name} with feature level {level}")
        needed = _REQUIRES.get((name, level))
        shown = f"{name}={level}"
        if name == _METADATA:
            shown += f" ({_shown(name, level)})"
        if needed is None:
            print(f"{shown} has no dependencies.")
        else:
            print(f"{shown} requires:\n    {_METADATA}={needed} ({_shown(_METADATA, needed)})")


def _name_and_level(feature: str) -> tuple[str, int]:
    name, separator, text = feature.partition("=")
    if not separator:
        raise CommandError(f"Can't parse feature=level string {feature}: equals sign not found.")
    text = text.strip()
    try:
        return name.strip(), parse_integer(text, 16)
    except ToolError:
        raise CommandError(
            f"Can't parse feature=level string {feature}: unable to parse {text} as a short."
        ) from None


def _shown(name: str, level: int) -> str:
    """Return a feature level as text; for metadata.version this is the version's name."""
    if name != _METADATA:
        return str(level)
    index = level - _FIRST_LEVEL
    return _VERSIONS[index] if 0 <= index < len(_VERSIONS) else f"UNKNOWN {level}"


# --- commands with a broker -----------------------------------------------------------------------


def _describe(client: Client, node_id: int | None) -> None:
    from protocol.apis.api_versions import ApiVersionsRequest

    request = ApiVersionsRequest(client_software_name="kafka-features", client_software_version="1")
    answer: Any = client.call("describeFeatures", lambda: client.ask(request, node_id))
    check(answer.error_code)
    levels = {feature.name: feature.max_version_level for feature in answer.finalized_features}
    epoch = answer.finalized_features_epoch
    for feature in sorted(answer.supported_features, key=lambda feature: str(feature.name)):
        least, most = (
            _shown(feature.name, feature.min_version),
            _shown(feature.name, feature.max_version),
        )
        level = _shown(feature.name, levels.get(feature.name, 0))
        print(
            f"Feature: {feature.name:<40}  SupportedMinVersion: {least:<15}  "
            f"SupportedMaxVersion: {most:<15}  FinalizedVersionLevel: {level:<15}  "
            f"Epoch: {'-' if epoch < 0 else epoch}"
        )


def _wanted(options: argparse.Namespace) -> dict[str, int]:
    """Return the feature levels that the options request. Raises CommandError."""
    features = options.feature or []
    if options.command == "disable":
        pairs = [(feature, 0) for feature in features]
    else:
        if options.release_version is not None:
            if options.metadata is not None or features:
                raise CommandError("Can not specify `release-version` with other feature flags.")
            level = _level(options.release_version)
            if level is None:
                raise _unknown_version(options.release_version)
            return {
                name: own
                for name, own in {_METADATA: level, **_defaults(level)}.items()
                if own or options.command == "downgrade"
            }
        pairs = []
        if options.metadata is not None:
            print(" `metadata` flag is deprecated and may be removed in a future release.")
            level = _level(options.metadata)
            if level is None:
                raise _unknown_version(options.metadata)
            pairs.append((_METADATA, level))
        pairs += [_name_and_level(feature) for feature in features]
    wanted: dict[str, int] = {}
    for name, level in pairs:
        if level < 0:
            raise CommandError("Cannot specify a negative version level.")
        if level < 1 and options.command == "upgrade":
            raise CommandError(
                "The upgradeType flag should be set to SAFE_DOWNGRADE or UNSAFE_DOWNGRADE when the "
                f"provided maxVersionLevel:{level} is < 1."
            )
        if name in wanted:
            raise CommandError(f"Feature {name} was specified more than once.")
        wanted[name] = level
    return wanted


def _update(client: Client, options: argparse.Namespace) -> None:
    wanted, command = _wanted(options), options.command
    if not wanted:
        raise CommandError(f"You must specify at least one feature to {command}")
    kind = _UPGRADE
    if command != "upgrade":
        kind = _UNSAFE_DOWNGRADE if options.unsafe else _SAFE_DOWNGRADE
    if "" in wanted:
        raise CommandError("Provided feature can not be empty.")
    errors = _errors(client, wanted, kind, is_dry=options.dry_run)
    failed = 0
    for name in sorted(wanted):
        to_level = "" if command == "disable" else f" to {wanted[name]}"
        error = errors.get(name)
        if error is None:
            verb = "can be" if options.dry_run else "was"
            print(f"{name} {verb} {command.rstrip('e')}ed{to_level}.")
        else:
            refused = "Can not" if options.dry_run else "Could not"
            print(f"{refused} {command} {name}{to_level}. {error}")
            failed += 1
    if failed:
        raise CommandError(f"{failed} out of {len(wanted)} operation(s) failed.")


def _errors(
    client: Client, wanted: Mapping[str, int], kind: int, *, is_dry: bool
) -> dict[str, ClientError]:
    """Change feature levels and return the error of each feature that was not changed."""
    from protocol.apis.update_features import FeatureUpdateKey, UpdateFeaturesRequest

    updates = [
        FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind)
        for name, level in wanted.items()
    ]
    request = UpdateFeaturesRequest(
        feature_updates=updates, validate_only=is_dry, timeout_ms=_TIMEOUT_MS
    )
    try:
        answer = client.ask_controller("updateFeatures", request)
        check(answer.error_code, answer.error_message or None)
    except ClientError as error:
        return dict.fromkeys(wanted, error)
    return {
        result.feature: ClientError(ErrorCode(result.error_code), result.error_message)
        for result in answer.results
        if result.error_code
    }


TOOL = CommandTool(_NAME, parser, commands, run)
