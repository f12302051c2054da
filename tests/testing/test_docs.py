"""Every Python snippet of docs/testing.md and docs/faults.md runs; every name in tables exists."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from collections import Counter

import pytest

from coordinator_server.testing import Broker
from tests.support import ROOT
from tests.testing.support import outcomes

pytest_plugins = ["pytester"]

PAGE = (ROOT / "docs" / "testing.md").read_text()
FAULTS_PAGE = (ROOT / "docs" / "faults.md").read_text()
SNIPPETS = re.findall(r"```python\n(.*?)```", PAGE + FAULTS_PAGE, re.DOTALL)
QUIET = ("-p", "no:cacheprovider", "-W", "ignore")


TEST = re.compile(r"def test_")


def test_the_snippets_with_tests_pass(pytester: pytest.Pytester) -> None:
    """Every test of every snippet passes in pytest; the snippets share the plugin's broker."""
    counts = {}
    for number, snippet in enumerate(SNIPPETS):
        if TEST.search(snippet):
            pytester.makepyfile(**{f"test_snippet_{number}": snippet})
            counts[f"test_snippet_{number}.py"] = len(TEST.findall(snippet))
    result = pytester.runpytest_subprocess(*QUIET, "-v")
    passed = re.findall(r"^(\w+\.py)::.* PASSED", result.stdout.str(), re.MULTILINE)
    assert Counter(passed) == counts
    assert outcomes(result) == {"passed": sum(counts.values())}


@pytest.mark.parametrize(
    "number", [number for number, snippet in enumerate(SNIPPETS) if not TEST.search(snippet)]
)
def test_a_snippet_without_tests_runs(number: int) -> None:
    """A snippet without tests runs as a script."""
    done = subprocess.run(
        [sys.executable, "-c", SNIPPETS[number]],
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
