"""Authorizer settings that are legal but probably a mistake."""

from __future__ import annotations

import pytest

from coordinator_server.config.authorizer_settings import AUTHORIZER_CLASS, authorizer_doubts


@pytest.mark.parametrize(
    ("super_users", "expected"),
    [
        ("User:admin;User:CN=broker,O=Example", []),
        ("User:a,User:b", ["super.users: User:a,User:b is one name, several are separated by ;"]),
        ("user:a;User:b", ["super.users: user:a is nobody, all clients are of the type User"]),
        (
            "",
            ["super.users: nobody is named, so whoever no ACL allows it yet may not even add one"],
        ),
    ],
)
def test_super_users(super_users: str, expected: list[str]) -> None:
    """A warning names a wrong separator, a lower-case type, and an empty super.users."""
    assert authorizer_doubts(AUTHORIZER_CLASS, super_users, allows_everyone=False) == expected


def test_an_authorizer_that_is_off() -> None:
    """A warning names authorizer settings without an authorizer."""
    assert authorizer_doubts("", "", allows_everyone=False) == []
    assert authorizer_doubts(AUTHORIZER_CLASS, "", allows_everyone=True) == []
    assert authorizer_doubts("", "User:a", allows_everyone=True) == [
        f"super.users: no effect without authorizer.class.name={AUTHORIZER_CLASS}",
        "allow.everyone.if.no.acl.found: no effect without "
        f"authorizer.class.name={AUTHORIZER_CLASS}",
    ]
