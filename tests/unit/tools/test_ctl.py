"""`coordinator-server ctl`: what its arguments send, and arguments that it refuses."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator_server.testing.control import Control
from coordinator_server.tools import ctl

RESET = ("offsets", "reset", "g", "--to", "earliest")

Sent = list[tuple[str, str, dict[str, object] | None, dict[str, object] | None]]


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Sent:
    """Return the list of the requests that `ctl` sends from now on; each gets an empty answer."""
    requests: Sent = []

    def call(
        _: Control, method: str, path: str, query: Any = None, body: Any = None, **_options: Any
    ) -> dict[str, Any]:
        requests.append((method, path, query, body))
        return {}

    monkeypatch.setattr(Control, "call", call)
    return requests


@pytest.mark.parametrize(
    ("arguments", "dry_run"),
    [((), None), (("--dry-run",), True), (("--dry-run", "true"), True),
     (("--dry-run", "false"), False)],
)  # fmt: skip
def test_a_boolean_is_a_flag_true_or_false(
    sent: Sent, arguments: tuple[str, ...], dry_run: bool | None
) -> None:
    """An option that is true or false may stand alone, which means true."""
    assert ctl.main([*RESET, *arguments]) == 0
    ((_, _, _, body),) = sent
    assert body is not None
    assert body.get("dry_run") is dry_run


def test_a_boolean_parameter_is_a_flag(sent: Sent) -> None:
    """Query parameters that are true or false are options of the same kind."""
    assert ctl.main(["groups", "list", "--times"]) == 0
    assert ctl.main(["groups", "list", "--times", "false"]) == 0
    assert [query and query["times"] for _, _, query, _ in sent] == ["true", "false"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((*RESET, "--dry-run", "yes"), "--dry-run is yes, which is not true or false"),
        ((*RESET, "--dry-run", "True"), "--dry-run is True, which is not true or false"),
        ((*RESET, "--shift-by", "x"), "--shift-by is x, which is not an integer"),
        ((*RESET, "--partitions", "x"), "--partitions is x, which is not an integer"),
        (("topics", "create", "t", "--partitions", "x"), "--partitions is x, which is not"),
        (("offsets", "set", "g", "--offsets", "{"), "--offsets is {, which is not JSON"),
        (("quotas", "alter", "--set", "a=x"), "--set a is x, which is not a number"),
    ],
)
def test_a_wrong_value_is_refused_with_its_option(
    sent: Sent, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    """A wrong value of an option is an error with exit code 2; no request is sent."""
    assert ctl.main(arguments) == 2
    assert message in capsys.readouterr().err
    assert sent == []
