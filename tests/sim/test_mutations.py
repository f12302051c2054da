"""The deliberate bugs fit into the code; `make nightly` and `make mutations` try them."""

import pytest

from tests.sim.bug import Bug, FragmentError, broken, read_bugs
from tests.sim.mutations import ROOT, module_path, try_bug

BUGS = read_bugs()
KINDS = {
    "tests.sim": 60,
    "tests.sim.transactions": 20,
    "tests.sim --kind consumer": 25,
    "tests.sim --kind share": 20,
    "tests.sim --kind share-members": 15,
    "tests.sim --kind streams": 10,
}
"""The least number of bugs for each simulation."""


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_every_bug_fits_into_the_code(bug: Bug) -> None:
    """The fragment of each bug occurs exactly once in its module."""
    source = (ROOT / module_path(bug)).read_text(encoding="utf-8")
    assert broken(source, bug) != source


def test_a_fragment_that_is_gone_is_an_error() -> None:
    """The error names the bug, and the files in which to change the fragment."""
    with pytest.raises(FragmentError, match=r"'odd'.*2 times in join\.py; adapt tests/sim/bugs"):
        broken("a a", Bug("odd", "join", "a", "b", "tests.sim"))


@pytest.mark.nightly
@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_every_bug_is_detected(bug: Bug) -> None:
    """A seed, a small world or a unit test detects each bug."""
    result = try_bug(bug)
    assert result.killer is not None, f"nothing detects the bug: {bug.name}"


def test_each_simulation_has_enough_bugs() -> None:
    """No two bugs have the same name, and each simulation has its least number of bugs."""
    assert len({bug.name for bug in BUGS}) == len(BUGS)
    for world, least in KINDS.items():
        assert sum(bug.world == world for bug in BUGS) >= least
