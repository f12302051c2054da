"""Logins, what users may see, and read-only servers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from coordinator_server.testing.api import ControlApi
from coordinator_server.testing.control import Control
from tests.e2e.control_api import http_address
from tests.page.browser import View, fill, wait_for
from tests.page.workload import VIEWS
from tests.support import Serve

pytestmark = pytest.mark.nightly

HTTP = ("--http", "127.0.0.1:0")


def log_in(view: View, user: str, password: str) -> None:
    """Log in as a user."""
    form = view.page.locator("form").filter(has=view.button("Log in"))
    fill(form, {"User": user, "Password": password})
    view.button("Log in").click()


def test_a_token_is_asked_for(tmp_path: Path, open_view: Callable[..., View]) -> None:
    """A link leads to the login and from there to its view; Log out forgets the token."""
    file = tmp_path / "token"
    file.write_text("a-long-enough-secret-token")
    with Serve("--ephemeral", *HTTP, "--http-token-file", str(file)) as serve:
        address = http_address(serve)
        view = open_view(address, "topics", query={"internal": "true"}, refusals=(401,))
        view.shown("Log in")
        assert view.page.get_by_label("Password").count() == 0
        assert "needs a token." in view.text
        view.page.get_by_label("Token").fill("wrong")
        view.button("Use the token").click()
        view.page.get_by_label("Token").wait_for()
        view.shown("Log in")
        view.page.get_by_label("Token").fill("a-long-enough-secret-token")
        view.page.keyboard.press("Enter")
        view.shown("Topics")
        assert view.hash == "#/topics?internal=true"
        view.page.locator("header", has_text="live").wait_for()
        view.page.reload()
        view.shown("Topics")
        view.button("Log out").click()
        view.shown("Log in")
        assert view.button("Log out").count() == 0
        view.page.evaluate("location.hash = '#/groups'")
        wait_for(lambda: "then=" in view.hash, "the login")
        assert view.page.evaluate("sessionStorage.length + localStorage.length") == 0
        assert serve.stop() == 0


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Serve, dict[str, str]]]:
    """A broker with users, ACLs for alice, and topics and groups that she may not see."""
    directory = tmp_path_factory.mktemp("secured") / "users"
    strict = "allow.everyone.if.no.acl.found=false"
    arguments = (*HTTP, "--http-login", "--dev-security", str(directory), "--set", strict)
    with Serve("--ephemeral", *arguments) as serve:
        passwords: dict[str, str] = json.loads((directory / "users.json").read_text())
        control = Control(http_address(serve))
        token = ControlApi(control).login({"user": "admin", "password": passwords["admin"]})
        admin = ControlApi(Control(control.address, token["token"]))
        for name in ("seen", "hidden"):
            admin.topics_create(name, {"partitions": 1})
            place: Any = {"topic": name, "partition": 0, "offset": 0}
            admin.offsets_set(f"{name}-group", {"offsets": [place]})
        admin.acls_create(
            {
                "acls": [
                    {
                        "principal": "User:alice",
                        "operation": operation,
                        "resource_type": kind,
                        "resource_name": name,
                    }
                    for kind, name, operation in (
                        ("TOPIC", "seen", "READ"),
                        ("TOPIC", "seen", "DESCRIBE_CONFIGS"),
                        ("GROUP", "seen-group", "READ"),
                    )
                ]
            }
        )
        yield serve, passwords
        assert serve.stop() == 0


def test_a_user_sees_what_the_acls_allow(
    secured: tuple[Serve, dict[str, str]], open_view: Callable[..., View]
) -> None:
    """No view of alice has a hidden name; what she may not see is said to be hidden."""
    serve, passwords = secured
    view = open_view(http_address(serve), "topics", refusals=(401, 403, 404))
    view.shown("Log in")
    assert view.page.get_by_label("Token").count() == 0
    log_in(view, "alice", "wrong")
    view.message("unknown user or wrong password")
    log_in(view, "alice", passwords["alice"])
    view.shown("Topics")
    wait_for(lambda: [row[0] for row in view.rows("Topics")] == ["seen"], "her topics")
    assert "as alice" in view.page.locator("header").inner_text()
    view.go("groups")
    wait_for(lambda: [row[0] for row in view.rows("Groups")] == ["seen-group"], "her groups")
    for parts in (
        (),
        ("topics", "seen"),
        ("records", "seen"),
        ("groups", "seen-group"),
        ("transactions",),
        ("connections",),
        ("clock",),
        ("settings",),
        ("security",),
        ("connect",),
    ):
        view.go(*parts)
        assert "hidden" not in view.page.locator("main").inner_text().replace("is hidden", "")
    view.go()
    wait_for(lambda: "seen-group" in view.text or "every group has read" in view.text, "overview")
    view.go("topics", "seen")
    wait_for(lambda: len(view.rows("Partitions")) == 1, "the partitions of her topic")
    view.go("topics", "hidden")
    wait_for(lambda: "TOPIC_AUTHORIZATION_FAILED" in view.text or "may not" in view.text, view.text)
    view.go("groups", "hidden-group")
    assert "hidden-group offsets" not in view.text


def test_only_what_the_acls_allow_is_offered(
    secured: tuple[Serve, dict[str, str]], open_view: Callable[..., View]
) -> None:
    """A change that ACLs refuse is a sentence with the missing operation, not a control.

    The navigation has no views that the user may not see. An administrator has all.
    """
    serve, passwords = secured
    view = open_view(http_address(serve), "topics", "seen", refusals=(401, 403))
    view.shown("Log in")
    log_in(view, "alice", passwords["alice"])
    view.shown("Topic seen")
    navigation = view.page.locator("nav a")
    visible = ["Overview", "Groups", "Topics", "Transactions"]
    wait_for(lambda: navigation.all_inner_texts() == visible, "the navigation of alice")
    assert "Delete the topic: alice may not, it needs DELETE on TOPIC." in view.text
    for parts, missing in (
        (("topics",), "CREATE on TOPIC"),
        (("records", "seen"), "WRITE on TOPIC"),
        (("groups", "seen-group"), "DELETE on GROUP"),
        (("clock",), "Log out"),
    ):
        view.go(*parts)
        view.page.locator("body", has_text=missing).wait_for()
        buttons = view.page.locator("main button").all_inner_texts()
        assert not {"Create", "Produce", "Delete the group", "Advance"} & set(buttons), parts
    view.go("groups", "seen-group")
    wait_for(lambda: view.page.locator("summary", has_text="Reset offsets").count(), "READ is hers")
    view.button("Log out").click()
    log_in(view, "admin", passwords["admin"])
    wait_for(lambda: len(navigation.all_inner_texts()) == 9, "the navigation of admin")
    view.go("topics", "seen")
    view.button("Delete the topic").wait_for()


def test_an_open_authorizer_is_said_to_be_open(
    tmp_path: Path, open_view: Callable[..., View]
) -> None:
    """--dev-security allows everything until the first ACL exists; the overview says so."""
    with Serve("--ephemeral", *HTTP, "--dev-security", str(tmp_path / "users")) as serve:
        view = open_view(http_address(serve))
        text = "Every user may do everything until the first ACL exists"
        wait_for(lambda: text in view.text, text)
        acl: Any = {"principal": "User:bob", "operation": "READ", "resource_type": "TOPIC"}
        acl["resource_name"] = "orders"
        ControlApi(Control(http_address(serve))).acls_create({"acls": [acl]})
        view.go()
        wait_for(lambda: "Resources without an ACL are open" in view.text, "after the first ACL")
        assert serve.stop() == 0


def test_acls_are_added_and_deleted(
    secured: tuple[Serve, dict[str, str]], open_view: Callable[..., View]
) -> None:
    """An administrator adds an ACL in the form, and deletes it after a question."""
    serve, passwords = secured
    view = open_view(http_address(serve), "security", refusals=(401,))
    view.shown("Log in")
    log_in(view, "admin", passwords["admin"])
    view.shown("Security")
    wait_for(lambda: len(view.rows("ACLs")) == 3, "the ACLs of alice")
    form = view.disclose("Add an ACL")
    fields = {"Principal": "User:bob", "Operation": "WRITE", "Resource name": "logs-"}
    fill(form, {**fields, "Pattern": "PREFIXED", "Permission": "DENY"})
    form.get_by_role("button", name="Add", exact=True).click()
    row = view.table("ACLs").locator("tr", has_text="User:bob")
    row.wait_for()
    assert row.inner_text().split("\t")[1:5] == ["DENY", "WRITE", "TOPIC logs-", "PREFIXED"]
    row.get_by_role("button", name="Delete").click()
    view.confirm("Delete")
    wait_for(lambda: len(view.rows("ACLs")) == 3, "it is deleted")


def test_a_read_only_server_has_no_controls(open_view: Callable[..., View]) -> None:
    """No view of a read-only server has a form or button that changes something."""
    with Serve("--ephemeral", *HTTP, "--http-read-only") as serve:
        view = open_view(http_address(serve), refusals=(404,))
        view.page.locator("header", has_text="read-only").wait_for()
        for parts in VIEWS:
            if parts == ("login",):
                continue
            view.go(*parts)
            assert view.page.locator("main details.form").count() == 0, parts
            names = view.page.get_by_role("button").all_inner_texts()
            harmless = {
                "Copy",
                "Show",
                "←",
                "→",
                "+",
                "\u2212",
                "1 min",
                "10 min",
                "1 h",
                "1 d",
                "live",
            }
            assert set(names) <= harmless, (parts, names)
            assert "Change" not in view.page.locator("thead").all_inner_texts()
        assert serve.stop() == 0
