"""The limit of file descriptors: raised, and divided between logs and clients."""

from __future__ import annotations

import resource
import sys
from types import ModuleType

import pytest

from coordinator_server.maintenance import descriptors
from storage.open_files import DEFAULT_MAX_OPEN_FILES


class Limits(ModuleType):
    """A process with these limits."""

    RLIMIT_NOFILE = resource.RLIMIT_NOFILE
    RLIM_INFINITY = resource.RLIM_INFINITY

    def __init__(self, soft: int, hard: int) -> None:
        super().__init__("resource")
        self.soft, self.hard = soft, hard

    def getrlimit(self, _: int) -> tuple[int, int]:
        """Return both limits."""
        return self.soft, self.hard

    def setrlimit(self, _: int, limits: tuple[int, int]) -> None:
        """Set both limits without checking them."""
        assert limits[1] == self.hard
        self.soft = limits[0]


@pytest.mark.parametrize(
    ("soft", "hard", "raised"),
    [
        (256, 20_000, 20_000),
        (1024, resource.RLIM_INFINITY, 1_048_576),
        (1024, 1024, 1024),
        (resource.RLIM_INFINITY, resource.RLIM_INFINITY, resource.RLIM_INFINITY),
    ],
)
def test_the_soft_limit_is_raised(
    soft: int, hard: int, raised: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The soft limit is raised to the hard limit, or to a number that every system accepts."""
    limits = Limits(soft, hard)
    monkeypatch.setitem(sys.modules, "resource", limits)
    descriptors.raise_limit()
    assert (limits.soft, limits.hard) == (raised, hard)


@pytest.mark.parametrize(
    ("soft", "expected"),
    [
        (16, 8),
        (64, 16),
        (256, 64),
        (1024, DEFAULT_MAX_OPEN_FILES),
        (1_000_000, DEFAULT_MAX_OPEN_FILES),
        (resource.RLIM_INFINITY, DEFAULT_MAX_OPEN_FILES),
    ],
)
def test_logs_get_a_quarter(soft: int, expected: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Logs get a quarter of the descriptors, but no more than they need."""
    monkeypatch.setitem(sys.modules, "resource", Limits(soft, soft))
    assert descriptors.for_logs() == expected


def test_a_system_without_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the module `resource`, as on Windows, the default number of open files is used."""
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setitem(sys.modules, "resource", None)
    descriptors.raise_limit()
    assert descriptors.for_logs() == DEFAULT_MAX_OPEN_FILES
