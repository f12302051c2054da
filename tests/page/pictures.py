"""Write the pictures of docs/page.md: `python -m tests.page.pictures`, then look at each.

The pictures show a real broker with a minute of work, so they differ in each run.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from playwright.sync_api import Browser

from tests.page.browser import NARROW, WIDE, View, chromium
from tests.page.workload import CLASSIC, consumer, workload
from tests.support import ROOT, Broker

FOLDER = ROOT / "docs/pictures"
PICTURES = (
    ("page-overview-light", (), "light", WIDE),
    ("page-connections-dark", ("connections",), "dark", WIDE),
    ("page-group-light", ("groups", CLASSIC), "light", (1280, 1000)),
    ("page-group-narrow-dark", ("groups", CLASSIC), "dark", NARROW),
)
"""Name, view, colors and size of each picture."""

_STAY_SECONDS = 12


@contextmanager
def produced(broker: Broker) -> Iterator[None]:
    """Write records to the topic of all groups until the end of the context."""
    is_ended = threading.Event()

    def run() -> None:
        number = 0
        while not is_ended.wait(0.2):
            broker.produce("orders", *[f'{{"order": {number + step}}}' for step in range(5)])
            number += 5

    thread = threading.Thread(target=run)
    thread.start()
    yield
    is_ended.set()
    thread.join()


def draw(browser: Browser, broker: Broker) -> None:
    """Let members join and leave, and write the pictures."""
    extra = consumer(broker.bootstrap_servers, CLASSIC, "billing-3")
    time.sleep(_STAY_SECONDS)
    extra.close()
    time.sleep(_STAY_SECONDS)
    for name, parts, scheme, size in PICTURES:
        with View(browser, broker.control.address, scheme=scheme, size=size) as view:
            view.open(*parts)
            view.page.wait_for_timeout(1_000)
            view.page.screenshot(path=FOLDER / f"{name}.png")
            view.check()


def main() -> list[Path]:
    """Write all pictures, and return their files."""
    with ExitStack() as stack:
        broker = stack.enter_context(Broker())
        stack.enter_context(workload(broker))
        stack.enter_context(produced(broker))
        draw(stack.enter_context(chromium()), broker)
    return [FOLDER / f"{name}.png" for name, *_ in PICTURES]


if __name__ == "__main__":
    for file in main():
        print(file.relative_to(ROOT), file.stat().st_size)
