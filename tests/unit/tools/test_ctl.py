"""`coordinator-server ctl`: the requests that it sends, and arguments that it refuses."""

from __future__ import annotations

from io import StringIO
from pathlib import Path
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
    """A boolean option may stand alone, which means true."""
    assert ctl.main([*RESET, *arguments]) == 0
    ((_, _, _, body),) = sent
    assert body is not None
    assert body.get("dry_run") is dry_run


def test_a_boolean_parameter_is_a_flag(sent: Sent) -> None:
    """The option of a boolean query parameter may stand alone, which means true."""
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
        (("topics", "show", ""), "TOPIC is empty: name of a topic is needed"),
        (("records", "show", "t", "0", ""), "OFFSET is empty"),
        (("offsets", "set", "g", "--body", "LIST"), "is not a JSON object, but [1]"),
        (("offsets", "set", "g", "--body", "BROKEN"), "is not JSON: "),
        (("offsets", "set", "g", "--body", "/none"), "--body /none: No such file"),
        (("topics", "list", "--http-user", "bob", "--password-file", "/none"), "/none: No such"),
        (("topics", "list", "--http-user", "bob", "--password-file", "EMPTY"), "password is empty"),
    ],
)
def test_a_wrong_value_is_refused_with_its_option(
    sent: Sent,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    arguments: tuple[str, ...],
    message: str,
) -> None:
    """A wrong value of an option is an error with exit code 2; no request is sent."""
    files = {"LIST": "[1]", "BROKEN": "{", "EMPTY": "\n"}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    paths = [str(tmp_path / word) if word in files else word for word in arguments]
    assert ctl.main(paths) == 2
    assert message in capsys.readouterr().err
    assert sent == []


def test_a_password_is_not_an_argument(
    sent: Sent, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`ctl login` reads the password from a file; there is no option for the password itself."""
    (tmp_path / "password").write_text("secret\n")
    file = ("--password-file", str(tmp_path / "password"))
    assert ctl.main(["login", "--user", "bob", *file]) == 0
    assert sent == [("POST", "/login", {}, {"user": "bob", "password": "secret"})]
    with pytest.raises(SystemExit):
        ctl.main(["login", "--user", "bob", "--password", "secret"])
    assert "secret" not in capsys.readouterr().out


def test_a_request_logs_in_with_the_password_of_standard_input(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`--http-user` sends name and password as Authorization: Basic."""
    logins: list[tuple[str, str] | None] = []

    def call(self: Control, *_: Any, **_options: Any) -> dict[str, Any]:
        logins.append(self.login)
        assert b"Authorization: Basic Ym9iOnM6w7w=\r\n" in self.encoded("GET", "/", None, None)
        return {}

    monkeypatch.setattr(Control, "call", call)
    monkeypatch.setattr("sys.stdin", StringIO("s:ü\n"))
    assert ctl.main(["topics", "list", "--http-user", "bob"]) == 0
    assert logins == [("bob", "s:ü")]
