"""A deliberate bug, and how it gets into a module."""

from __future__ import annotations

from typing import NamedTuple


class Bug(NamedTuple):
    """`fragment` of `module` becomes `replacement`; `is_quick` ones are tried by the test suite.

    `world` is the simulation that has to see it: a module, and maybe arguments.
    """

    name: str
    module: str
    fragment: str
    replacement: str
    is_quick: bool = False
    world: str = "tests.sim"


class FragmentError(Exception):
    """The fragment of a bug is not in its module, or not only once."""


def broken(source: str, bug: Bug) -> str:
    """The source of the module with the bug in it."""
    count = source.count(bug.fragment)
    if count != 1:
        raise FragmentError(
            f"bug {bug.name!r}: its fragment occurs {count} times in {bug.module}.py; "
            f"adapt tests/sim/bugs.py:\n{bug.fragment}"
        )
    return source.replace(bug.fragment, bug.replacement)
