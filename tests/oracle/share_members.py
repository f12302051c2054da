"""Java share consumers as processes."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import NamedTuple, Self

from tests.oracle.kafka_process import java
from tests.support import wait_for

PROGRAM = Path(__file__).with_name("ShareMember.java")


SETTINGS = {
    "group.share.min.session.timeout.ms": "1000",
    "group.share.session.timeout.ms": "6000",
    "group.share.min.heartbeat.interval.ms": "100",
    "group.share.heartbeat.interval.ms": "500",
    "group.share.assignment.interval.ms": "0",
    "group.share.min.record.lock.duration.ms": "1000",
}


GOT = re.compile(r"got (\d+) (\d+) (.*)")


class Got(NamedTuple):
    """A record that a member received."""

    offset: int
    delivery_count: int
    value: str


class Member:
    """A process of ShareMember.java."""

    def __init__(self, bootstrap: str, output: Path, how: str) -> None:
        self._output = output
        command = java(str(PROGRAM), bootstrap, "queue", "jobs", how)
        with output.open("wb") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=log, stderr=subprocess.STDOUT
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()

    @property
    def lines(self) -> list[str]:
        """Return the member's output lines."""
        return self._output.read_text().splitlines()

    def got(self) -> list[Got]:
        """Return the received records in order."""
        found = [GOT.fullmatch(line) for line in self.lines]
        return [Got(int(one[1]), int(one[2]), one[3]) for one in found if one]

    def wait_until_got(self, count: int, what: str, seconds: float = 60) -> list[Got]:
        """Wait until `count` records are received, and return them."""
        try:
            wait_for(lambda: len(self.got()) >= count, what, seconds, 0.05)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self._output.read_text()[-3000:]}") from None
        return self.got()

    def close(self) -> None:
        """Let the process close its consumer."""
        self.process.communicate(b"end\n", 30)
        assert self.lines[-1] == "closed", self._output.read_text()[-3000:]
