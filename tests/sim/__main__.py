"""Run the simulation: `python -m tests.sim --seeds 0-999`, or one seed with `--seed N --trace`.

With `--worlds DEPTH` it tries every order of events in the small worlds instead.
"""

import argparse
import sys
import time
import traceback

from tests.sim.world import run


def main() -> int:
    """Run what is asked for; 1 after a violation, with the command that shows it again."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    parser.add_argument("--seed", type=int, help="one seed")
    parser.add_argument("--seeds", default="0-99", help="a range of seeds, both ends included")
    parser.add_argument("--steps", type=int, default=1000, help="steps per seed")
    parser.add_argument("--trace", action="store_true", help="print what happens")
    arguments = parser.parse_args()
    if arguments.seed is not None:
        first = last = arguments.seed
    else:
        one, _, other = arguments.seeds.partition("-")
        first, last = int(one), int(other or one)
    started = time.process_time()
    steps = 0
    for seed in range(first, last + 1):
        try:
            steps += run(seed, arguments.steps, print if arguments.trace else None).steps
        except Exception as error:
            return _violated(seed, arguments.steps, error)
    seconds = time.process_time() - started
    print(f"{last - first + 1} seeds, {steps} steps, no violation, {seconds:.1f} s of CPU")
    return 0


def _violated(seed: int, steps: int, error: Exception) -> int:
    traceback.print_exception(error, file=sys.stderr)
    what = str(error).partition("\n")[0] or type(error).__name__
    print("to keep it, add this line to tests/sim/kept_seeds.txt:", file=sys.stderr)
    print(f"{seed} {steps} {what}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
