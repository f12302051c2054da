"""The options `--command-config` and `--set`, which configure a tool's client."""

from __future__ import annotations

import argparse

from coordinator_server.client import ClientSettings, read_settings
from coordinator_server.client.security import invalid


def add_client_options(parser: argparse.ArgumentParser) -> None:
    """Add `--command-config` and `--set` to a parser."""
    parser.add_argument(
        "--command-config", metavar="FILE", help="properties file with client settings"
    )
    parser.add_argument(
        "--set",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        type=_setting,
        help="client setting, overrides --command-config (repeatable)",
    )


def read_client_settings(options: argparse.Namespace, defaults: ClientSettings) -> ClientSettings:
    """Return the client settings: the options' values over the tool's defaults.

    Raises ClientError.
    """
    return read_settings(read_client_properties(options), defaults)


def read_client_properties(options: argparse.Namespace) -> dict[str, str]:
    """Return the properties from `--command-config` and `--set`, by name. Raises ClientError."""
    properties: dict[str, str] = {}
    if options.command_config is not None:
        from coordinator_server.config.properties import read_properties

        try:
            properties = read_properties(options.command_config)
        except ValueError as error:
            raise invalid(f"--command-config {options.command_config}: {error}") from error
    properties.update(options.set)
    return properties


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        # Do not show the value, which may be a password.
        raise argparse.ArgumentTypeError("a setting is NAME=VALUE")
    return name.strip().removeprefix("client."), value
