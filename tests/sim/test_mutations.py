"""The simulation is no decoration: it sees bugs. `make mutations` tries all of them."""

import pytest

from tests.sim.bug import Bug, FragmentError, broken
from tests.sim.bugs import BUGS
from tests.sim.mutations import ROOT, module_path, try_bug

QUICK = [bug for bug in BUGS if bug.is_quick]


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_every_bug_fits_into_the_code(bug: Bug) -> None:
    """The fragment that a bug replaces is in its module, once."""
    source = (ROOT / module_path(bug)).read_text(encoding="utf-8")
    assert broken(source, bug) != source


def test_a_fragment_that_is_gone_is_an_error() -> None:
    """A bug that no longer fits says which one it is, and where to adapt it."""
    with pytest.raises(FragmentError, match=r"'odd'.*2 times in join\.py; adapt tests/sim/bugs"):
        broken("a a", Bug("odd", "join", "a", "b"))


@pytest.mark.nightly
@pytest.mark.parametrize("bug", QUICK, ids=lambda bug: bug.name)
def test_the_simulation_sees(bug: Bug) -> None:
    """A bug in the coordinator ends in a violation within a few seeds."""
    result = try_bug(bug, is_quick=True)
    assert result.killer is not None, f"nobody notices: {bug.name}"


def test_there_are_enough_of_them() -> None:
    """No name twice; enough of each kind of group, and some in every run of the test suite."""
    assert len({bug.name for bug in BUGS}) == len(BUGS)
    assert len(QUICK) >= 12
    for kind, least in (("consumer", 10), ("share", 8), ("share-members", 8), ("streams", 5)):
        assert sum(bug.world == f"tests.sim --kind {kind}" for bug in BUGS) >= least
