"""Deliberate bugs, which show whether the simulation and the unit tests detect errors.

`tests/sim/bugs` has one file for each simulation. A bug there is a line "NAME @ MODULE", the lines
of a fragment that occurs exactly once in the module, each behind "-", and the lines that replace
the fragment, each behind "+". An empty last line means that the text ends with a line break.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

DIRECTORY = Path(__file__).with_name("bugs")
WORLDS = {
    "classic": "tests.sim",
    "transactions": "tests.sim.transactions",
    "consumer": "tests.sim --kind consumer",
    "share": "tests.sim --kind share",
    "share_members": "tests.sim --kind share-members",
    "streams": "tests.sim --kind streams",
}
"""The simulation that has to detect the bugs of a file: a module, possibly with arguments."""


class Bug(NamedTuple):
    """`replacement` replaces `fragment` in `module`; `world` is the simulation that detects it."""

    name: str
    module: str
    fragment: str
    replacement: str
    world: str


class FragmentError(Exception):
    """The fragment of a bug is not in its module, or occurs more than once."""


def read_bugs() -> list[Bug]:
    """Return the bugs of all files."""
    bugs = []
    for name, world in WORLDS.items():
        text = (DIRECTORY / f"{name}.txt").read_text(encoding="utf-8")
        for block in text.strip().split("\n\n"):
            head, *lines = [line for line in block.split("\n") if not line.startswith("#")] or [""]
            if head:
                title, _, module = head.rpartition(" @ ")
                fragment, replacement = (
                    "\n".join(line[1:] for line in lines if line[0] == sign) for sign in "-+"
                )
                bugs.append(Bug(title, module, fragment, replacement, world))
    return bugs


def broken(source: str, bug: Bug) -> str:
    """Return the source of the module with the bug in it."""
    count = source.count(bug.fragment)
    if count != 1:
        raise FragmentError(
            f"bug {bug.name!r}: its fragment occurs {count} times in {bug.module}.py; "
            f"adapt tests/sim/bugs:\n{bug.fragment}"
        )
    return source.replace(bug.fragment, bug.replacement)
