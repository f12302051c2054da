"""Run the simulation: `python -m tests.sim --seeds 0-999`, or one seed with `--seed N --trace`."""

import argparse
import time

from tests.sim.world import run


def main() -> None:
    """Run the seeds asked for; a violation ends it with a traceback and how to see it again."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    parser.add_argument("--seed", type=int, help="one seed")
    parser.add_argument("--seeds", default="0-99", help="a range of seeds, both ends included")
    parser.add_argument("--steps", type=int, default=1000, help="steps per seed")
    parser.add_argument("--trace", action="store_true", help="print what happens")
    arguments = parser.parse_args()
    if arguments.seed is not None:
        first = last = arguments.seed
    else:
        first, _, last = arguments.seeds.partition("-")
        first, last = int(first), int(last or first)
    started = time.process_time()
    steps = 0
    for seed in range(first, last + 1):
        steps += run(seed, arguments.steps, print if arguments.trace else None).steps
    seconds = time.process_time() - started
    print(f"{last - first + 1} seeds, {steps} steps, no violation, {seconds:.1f} s of CPU")


if __name__ == "__main__":
    main()
