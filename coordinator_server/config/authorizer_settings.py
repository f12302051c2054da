"""The settings of the authorizer (docs/authorizer.md)."""

from __future__ import annotations

import re

from storage.config_def import Kind, Setting

AUTHORIZER_CLASS = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
_OLDER_CLASSES = (
    "kafka.security.authorizer.AclAuthorizer",
    "kafka.security.auth.SimpleAclAuthorizer",
)

AUTHORIZER_SETTINGS = (
    Setting(
        "authorizer.class.name",
        Kind.STRING,
        "",
        f"With `{AUTHORIZER_CLASS}` every request is authorized by ACLs; if empty, every client "
        "may do everything.",
    ),
    Setting(
        "super.users",
        Kind.STRING,
        "",
        "Principals that may do everything, such as `User:admin;User:ANONYMOUS`.",
        internal=True,
    ),
    Setting(
        "allow.everyone.if.no.acl.found",
        Kind.BOOLEAN,
        False,
        "Whether every client may access a resource that has no ACL.",
        internal=True,
    ),
)


def split_super_users(text: str) -> list[str]:
    """Return the principals in the value of super.users."""
    return [principal for part in text.split(";") if (principal := part.strip())]


def authorizer_doubts(name: str, super_users: str, *, allows_everyone: bool) -> list[str]:
    """Return warnings about settings that are valid but probably a mistake."""
    doubts = []
    users = split_super_users(super_users)
    if not name:
        given = {"super.users": users, "allow.everyone.if.no.acl.found": allows_everyone}
        doubts += [
            f"{setting}: no effect without authorizer.class.name={AUTHORIZER_CLASS}"
            for setting, value in given.items()
            if value
        ]
    elif not users and not allows_everyone:
        doubts.append(
            "super.users: nobody is named, so whoever no ACL allows it yet may not even add one"
        )
    for user in users:
        if re.search(r",\s*[Uu]ser:", user):
            doubts.append(f"super.users: {user} is one name, several are separated by ;")
        elif not user.startswith("User:"):
            doubts.append(f"super.users: {user} is nobody, all clients are of the type User")
    return doubts


def authorizer_problem(name: str, super_users: str) -> str | None:
    """Return the error in the authorizer class or the super users; None if they are valid."""
    if name in _OLDER_CLASSES:
        return (
            f"authorizer.class.name: {name} went with ZooKeeper, write {AUTHORIZER_CLASS}, which "
            "has the same ACLs"
        )
    if name not in ("", AUTHORIZER_CLASS):
        return f"authorizer.class.name: {name} cannot be loaded, only {AUTHORIZER_CLASS} is there"
    for principal in split_super_users(super_users):
        principal_type, separator, user = principal.partition(":")
        if not (principal_type and separator and user):
            return f"super.users: {principal} is no principal such as User:admin"
    return None
