"""The compose tests need Docker. Without Docker they are left out with one line; in CI they fail.

They are nightly tests: `make nightly` and `make compose-test` run them and start a Docker engine if
none runs.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest

from tests.compose.support import (
    BRIDGE,
    HOST,
    Project,
    build_images,
    has_bridge_networks,
    running,
)
from tests.left_out import leave_out

FOLDER = "tests/compose/"
NEEDS_BRIDGE = {
    "test_documentation.py",
    "test_existing_files.py",
    "test_published_port.py",
    "test_secured_example.py",
}


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip tests that lack Docker or its bridge networks; without Docker, CI fails instead."""
    ours = [item for item in items if item.nodeid.startswith(FOLDER)]
    if not ours:
        return
    if shutil.which("docker") is None:
        if os.environ.get("CI"):
            return
        reason = "no Docker; make compose-test brings an engine up on Debian"
    elif has_bridge_networks():
        return
    else:
        ours = [item for item in ours if item.path.name in NEEDS_BRIDGE]
        reason = "this Docker engine has no bridge networks"
    line = f"{len(ours)} compose tests left out: {reason} (see docs/docker.md)"
    leave_out(config, items, ours, line)


@pytest.fixture(scope="session")
def images() -> None:
    """Build both images from the checkout."""
    build_images()


@pytest.fixture(scope="module")
def project(images: None) -> Iterator[Project]:
    """A broker for a module of tests, in a separate network if the engine supports networks."""
    with running(BRIDGE if has_bridge_networks() else HOST) as project:
        yield project
