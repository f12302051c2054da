"""Creates the authorizer from the settings and the stored ACLs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.config.authorizer_settings import split_super_users
from coordinator_server.security.acl import Acl
from coordinator_server.security.authorizer import Authorizer
from storage.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from coordinator_server.config.config import Config


def load_authorizer(config: Config, entries: Iterable[Mapping[str, Any]]) -> Authorizer:
    """Return the authorizer with the stored ACLs. Raises StorageError if an ACL is corrupt."""
    try:
        acls = [Acl.from_entry(entry) for entry in entries]
    except (KeyError, TypeError) as error:
        raise StorageError(f"an ACL in the data directory is damaged ({error})") from error
    return Authorizer(
        split_super_users(config.text("super.users")),
        allows_everyone_without_acl=config.boolean("allow.everyone.if.no.acl.found"),
        acls=acls,
    )
