"""Send random sequences of requests to Apache Kafka and to this broker: `make fuzz-kafka`.

The program starts both brokers unless --kafka names a running Kafka. Each difference is printed
with the shortest sequence that shows it; the exit code is 1 if a difference has no explanation.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from protocol.registry import SPEC_BY_NAME
from tests.fuzz_kafka.compare import Difference, Target, find, shrink
from tests.fuzz_kafka.draw import THEMES, Draw, Step
from tests.fuzz_kafka.fields import Body
from tests.fuzz_kafka.play import Player
from tests.oracle.kafka_process import Kafka
from tests.support import ROOT, Broker, address_of

_WARM_UP_SECONDS = 60.0
SETTINGS = {
    "group.consumer.session.timeout.ms": "45000",
    "group.consumer.assignment.interval.ms": "0",
    "group.share.heartbeat.interval.ms": "5000",
    "group.share.min.session.timeout.ms": "1000",
}
OFFLOAD = {
    "group.consumer.assignor.offload.enable": "false",
    "group.share.assignor.offload.enable": "false",
    "group.streams.assignor.offload.enable": "false",
}
"""Kafka computes assignments within a request, so that the next request meets the result."""


class Fuzzer:
    """Plays the sequences of `seeds`; each worker has a broker of ours.

    `found` has one difference of each kind by theme and seed, `counts` the numbers of sequences.
    """

    def __init__(self, kafka: Target, themes: Sequence[str], seeds: Iterator[int]) -> None:
        self._kafka, self._themes, self._seeds = kafka, themes, seeds
        self._lock = threading.Lock()
        self.counts: Counter[str] = Counter()
        self.found: dict[str, tuple[str, int, Difference, Sequence[Step]]] = {}
        self.errors: list[str] = []

    def run(self, workers: int, seconds: float) -> None:
        """Play until the seeds or the seconds run out."""
        end = time.monotonic() + seconds
        threads = [threading.Thread(target=self._work, args=(end,)) for _ in range(workers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _work(self, end: float) -> None:
        with Broker({**profile(), **SETTINGS, **OFFLOAD}, log_level="error") as broker:
            ours = Target(broker.address, broker.clock.advance)
            while time.monotonic() < end:
                with self._lock:
                    seed = next(self._seeds, None)
                if seed is None:
                    return
                try:
                    self._play(ours, seed)
                except Exception as error:
                    with self._lock:
                        self.errors.append(f"seed {seed}: {error!r}")

    def _play(self, ours: Target, seed: int) -> None:
        drawn = Draw(seed, self._themes)
        difference = find(self._kafka, ours, drawn.steps)
        with self._lock:
            self.counts += Counter([drawn.theme] + ["requests"] * len(drawn.steps))
            if difference is None or difference.kind in self.found:
                return
            steps = drawn.steps[: difference.step + 1]
            self.found[difference.kind] = drawn.theme, seed, difference, steps
        shrunk = shrink(self._kafka, ours, steps, difference.kind)
        self.found[difference.kind] = drawn.theme, seed, difference, shrunk

    def report(self) -> str:
        """Return a text with the numbers of sequences and each difference."""
        lines = []
        for kind, (theme, seed, difference, steps) in self.found.items():
            lines += [f"{theme}, seed {seed}: {kind}"]
            lines += [f"    {one.client} {one.api} v{one.version} {one.body}" for one in steps]
            lines += [f"    Kafka: {difference.kafka}", f"    ours:  {difference.ours}"]
        played = ", ".join(f"{count} {name}" for name, count in sorted(self.counts.items()))
        return "\n".join([*lines, *self.errors, f"played {played}; {len(self.found)} differences"])


def profile() -> dict[str, str]:
    """Return the settings of profile A of the recorded scenarios."""
    lines = (ROOT / "tests/conformance/profile-a.properties").read_text().split()
    return dict(line.split("=", 1) for line in lines)


@contextmanager
def running_kafka(address: str | None = None) -> Iterator[Target]:
    """Yield the Kafka at HOST:PORT, or a new Kafka, once all coordinators answer."""
    with ExitStack() as stack:
        if address is None:
            directory = stack.enter_context(tempfile.TemporaryDirectory())
            kafka = Kafka(
                Path(directory), {**profile(), **SETTINGS, **OFFLOAD}, takes_telemetry=True
            )
            stack.callback(kafka.end)
            kafka.start()
            address = kafka.bootstrap_servers
        target = Target(address_of(address))
        _warm_up(target)
        yield target


def _warm_up(kafka: Target) -> None:
    """Send requests until every coordinator is loaded and no answer has a COORDINATOR_* error."""
    end = time.monotonic() + _WARM_UP_SECONDS
    bodies: list[tuple[str, Body]] = [
        ("FindCoordinator", {"coordinator_keys": ["warm"], "key_type": key_type})
        for key_type in (0, 1)
    ]
    bodies += [("InitProducerId", {"transactional_id": "warm", "transaction_timeout_ms": 60000})]
    joins = {"member_id": {"$chosen_id": 0}, "subscribed_topic_names": [{"$name": "t0"}]}
    bodies += [("ShareGroupHeartbeat", {"group_id": f"warm-{one}", **joins}) for one in range(16)]
    warm = [
        Step(number, 0, api, SPEC_BY_NAME[api].max_version, body)
        for number, (api, body) in enumerate(bodies)
    ]
    while time.monotonic() < end:
        answers = Player(kafka.address, f"w{time.monotonic_ns()}", patience=3.0).play(warm)
        if "COORDINATOR" not in json.dumps(answers):
            return


def main() -> int:
    """Run the command line; return 1 if a difference is not explained."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz_kafka", description=__doc__)
    parser.add_argument("--seeds", default="0-199", metavar="FIRST-LAST")
    parser.add_argument("--themes", default=",".join(THEMES), help="of %(default)s")
    parser.add_argument("--kafka", metavar="HOST:PORT", help="a Kafka that runs already")
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    options = parser.parse_args()
    first, _, last = options.seeds.partition("-")
    with running_kafka(options.kafka) as kafka:
        seeds = iter(range(int(first), int(last or first) + 1))
        fuzzer = Fuzzer(kafka, options.themes.split(","), seeds)
        fuzzer.run(options.workers, options.seconds)
    print(fuzzer.report())
    return 1 if fuzzer.found or fuzzer.errors else 0


if __name__ == "__main__":
    sys.exit(main())
