"""Every Python snippet of docs/testing.md and docs/faults.md runs; every name in tables exists."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys

import pytest

from coordinator_server.testing import Broker
from tests.support import ROOT
from tests.testing.support import outcomes

pytest_plugins = ["pytester"]

PAGE = (ROOT / "docs" / "testing.md").read_text()
FAULTS_PAGE = (ROOT / "docs" / "faults.md").read_text()
SNIPPETS = re.findall(r"```python\n(.*?)```", PAGE + FAULTS_PAGE, re.DOTALL)
QUIET = ("-p", "no:cacheprovider", "-W", "ignore")


@pytest.mark.parametrize("number", range(len(SNIPPETS)))
def test_a_snippet_runs(pytester: pytest.Pytester, number: int) -> None:
    """A snippet with tests passes in pytest, test by test; any other snippet runs as a script."""
    snippet = SNIPPETS[number]
    count = len(re.findall(r"def test_", snippet))
    if count:
        pytester.makepyfile(snippet)
        assert outcomes(pytester.runpytest_subprocess(*QUIET)) == {"passed": count}
    else:
        done = subprocess.run(
            [sys.executable, "-c", snippet],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr


def test_the_options_are_those_of_the_plugin(pytester: pytest.Pytester) -> None:
    """pytest accepts the ini file of the page without an unknown option."""
    (ini,) = re.findall(r"```ini\n(.*?)```", PAGE, re.DOTALL)
    pytester.makeini(ini)
    pytester.makepyfile(
        """
        def test_settings(kafka):
            kafka.create_topic("orders")
            assert kafka.topics() == {"orders": 3}
        """
    )
    result = pytester.runpytest_subprocess(*QUIET, "--strict-config")
    assert outcomes(result) == {"passed": 1}


def test_every_name_of_the_tables_is_there() -> None:
    """Every method and property named on the page is an attribute of Broker."""
    rows = re.findall(r"^\| (`.*?`) \|", PAGE, re.MULTILINE)
    names = {name for row in rows for name in re.findall(r"`(?:\w+ )?([a-z_]+)[(.`]", row)}
    names -= {"kafka", "kafka_broker", *inspect.signature(Broker).parameters}
    assert len(names) > 18
    missing = [name for name in names if not hasattr(Broker, name)]
    assert not missing
