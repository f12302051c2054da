"""Tests of the pipeline that take minutes each: `make pipeline-test` runs them, and `.ci/run`.

`make test` leaves them out and says so in one line.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.left_out import leave_out
from tests.pipeline.conftest import spark

__all__ = ["spark"]

HERE = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the tests out that were not asked for."""
    ours = [item for item in items if HERE in item.path.parents]
    if not ours or os.environ.get("LONG_TESTS"):
        return
    leave_out(config, items, ours, f"{len(ours)} long tests left out: make pipeline-test runs them")
