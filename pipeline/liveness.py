"""End a run whose cluster no longer answers; Spark's connector alone would wait forever.

The connector's driver looks up offsets with a consumer that has no time limit (`poll(0)`).
"""

from __future__ import annotations

import _thread
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from pipeline.sources.source import InputError

EVERY_SECONDS = 15.0
TRIES = 3


@contextmanager
def while_it_answers(
    ask: Callable[[], object], every_seconds: float = EVERY_SECONDS, tries: int = TRIES
) -> Iterator[None]:
    """Call `ask` every `every_seconds` in a thread while the body runs in the main thread.

    If `ask` raises InputError `tries` times in a row, the body is interrupted and the last
    InputError is raised. Must be entered from the main thread, because the interruption is a
    signal.
    """
    ended = threading.Event()
    lost: list[InputError] = []

    def look() -> None:
        failures = 0
        while failures < tries and not ended.wait(every_seconds):
            try:
                ask()
                failures = 0
            except InputError as error:
                failures += 1
                if failures == tries and not ended.is_set():
                    lost.append(error)
                    _interrupt_main()

    before = signal.getsignal(signal.SIGINT)

    def interrupt(number: int, frame: FrameType | None) -> None:
        # This must be a KeyboardInterrupt, because py4j replaces an Exception by its own error.
        if lost:
            raise KeyboardInterrupt
        if callable(before):
            before(number, frame)

    # Background processes of a shell script ignore SIGINT unless they install a handler.
    signal.signal(signal.SIGINT, interrupt)
    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield
    except KeyboardInterrupt:
        if lost:
            raise lost[0] from None
        raise
    finally:
        ended.set()
        signal.signal(signal.SIGINT, before)


def _interrupt_main() -> None:
    """Send SIGINT, as Ctrl-C does, so that a blocking call of the main thread returns."""
    main = threading.main_thread().ident
    if hasattr(signal, "pthread_kill") and main is not None:
        signal.pthread_kill(main, signal.SIGINT)
    else:
        _thread.interrupt_main()
