"""The address and login of a schema registry, and the compiler of Protobuf schemas."""

from __future__ import annotations

import shutil
import sysconfig
from typing import NamedTuple


class RegistryAddress(NamedTuple):
    """The URL of a registry without a slash at its end, and "USER:PASSWORD" or ""."""

    url: str
    login: str = ""


def protoc() -> str | None:
    """Return the path of protoc: of this Python environment, else of PATH; None without protoc."""
    scripts = sysconfig.get_path("scripts")
    return shutil.which("protoc", path=scripts) or shutil.which("protoc")
