"""`--command-config` and `--set`: with which settings a tool's client connects."""

from __future__ import annotations

import argparse

from coordinator_server.client import ClientSettings, read_settings
from coordinator_server.client.security import invalid


def add_client_options(parser: argparse.ArgumentParser) -> None:
    """Declare them."""
    parser.add_argument(
        "--command-config", metavar="FILE", help="a properties file with the client's settings"
    )
    parser.add_argument(
        "--set",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        type=_setting,
        help="one setting of the client, over those of the file",
    )


def read_client_settings(options: argparse.Namespace, defaults: ClientSettings) -> ClientSettings:
    """What they say, over the tool's own defaults. Raises ClientError."""
    return read_settings(read_client_properties(options), defaults)


def read_client_properties(options: argparse.Namespace) -> dict[str, str]:
    """What they say, by name. Raises ClientError."""
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
        raise argparse.ArgumentTypeError("a setting is NAME=VALUE")  # without the text: a password
    return name.strip().removeprefix("client."), value
