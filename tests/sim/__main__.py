"""Run the simulation: `python -m tests.sim --seeds 0-999`, or one seed with `--seed N --trace`.

`--kind consumer` (or another kind) selects the simulation of another kind of group.
"""

import argparse
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

from tests.harness.one_group import ViolationError
from tests.sim import consumer_groups, share_groups, share_members, streams_groups, world

SIMULATIONS: dict[str, tuple[Callable[..., Any], int]] = {
    "classic": (world.run, 1000),
    "consumer": (consumer_groups.run, consumer_groups.STEPS),
    "share": (share_groups.run, share_groups.STEPS),
    "share-members": (share_members.run, share_members.STEPS),
    "streams": (streams_groups.run, streams_groups.STEPS),
}
"""By kind of group: the function that plays a seed, and the default number of steps."""

OTHER_KINDS = sorted(SIMULATIONS.keys() - {"classic"})


def main() -> int:
    """Run the requested seeds.

    Returns 1 after a violation and prints the command that reproduces it.
    """
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    parser.add_argument("--kind", choices=SIMULATIONS, default="classic", help="of the group")
    parser.add_argument("--seed", type=int, help="one seed")
    parser.add_argument("--seeds", default="0-99", help="a range of seeds, both ends included")
    parser.add_argument("--steps", type=int, help="steps per seed")
    parser.add_argument("--trace", action="store_true", help="print what happens")
    arguments = parser.parse_args()
    if arguments.seed is not None:
        first = last = arguments.seed
    else:
        one, _, other = arguments.seeds.partition("-")
        first, last = int(one), int(other or one)
    run, default_steps = SIMULATIONS[arguments.kind]
    each = arguments.steps or default_steps
    started = time.process_time()
    steps = 0
    for seed in range(first, last + 1):
        try:
            steps += run(seed, each, print if arguments.trace else None).steps
        except (Exception, ViolationError) as error:
            return _violated(arguments.kind, seed, each, error)
    seconds = time.process_time() - started
    print(f"{last - first + 1} seeds, {steps} steps, no violation, {seconds:.1f} s of CPU")
    return 0


def _violated(kind: str, seed: int, steps: int, error: BaseException) -> int:
    traceback.print_exception(error, file=sys.stderr)
    what = str(error).partition("\n")[0] or type(error).__name__
    if kind != "classic":
        return 1
    print("to keep it, add this line to tests/sim/kept_seeds.txt:", file=sys.stderr)
    print(f"{seed} {steps} {what}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
