"""The users with SCRAM credentials: describe, alter and store.

Source: Kafka's ScramControlManager, ScramImage.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from coordinator_server.config.config import ConfigError
from coordinator_server.security.credentials.scram_mechanisms import (
    MAX_ITERATIONS,
    SCRAM_BY_NAME,
    SCRAM_BY_TYPE,
    ScramMechanism,
)
from coordinator_server.security.sasl.scram import (
    ScramCredential,
    credential_of,
    new_credential,
)
from protocol.errors import ErrorCode
from storage.errors import StorageError
from storage.security_state import Kept, kept

if TYPE_CHECKING:
    from protocol.apis.alter_user_scram_credentials import (
        AlterUserScramCredentialsRequest,
        ScramCredentialDeletion,
        ScramCredentialUpsertion,
    )
    from storage.security_state import SecurityState

SECTION = "scram_users"

_CONFIGURED_USER = re.compile(
    r"\s*(?P<mechanism>[A-Z0-9-]+)=\[name=(?P<name>[^,\]]+),"
    r"(?:iterations=(?P<quote>\"?)(?P<iterations>[0-9]{1,9})(?P=quote),)?"
    r"password=(?P<password>.+?)\]\s*(?:$|;(?=\s*(?:$|[A-Z0-9-]+=\[)))"
)

MOST_CHANGES = 10_000
"""Maximum changes per request, the number of records that Kafka's QuorumController commits at
once."""

_PER_STEP = 500
TWICE = "A user credential cannot be altered twice in the same request"


class ConfiguredUser(NamedTuple):
    """A user of the setting scram.users."""

    mechanism: ScramMechanism
    name: str
    password: str
    iterations: int

    def __repr__(self) -> str:
        return f"ConfiguredUser({self.name})"


class UserResult(NamedTuple):
    """The result for one user of a request."""

    user: str
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None


class ScramUsers:
    """The credentials by user and mechanism, stored in `state`.

    Users of the settings (`configured`) are added; with `replaces` they override stored
    credentials. Raises ConfigError, StorageError.
    """

    def __init__(
        self,
        state: SecurityState,
        configured: str | None = None,
        *,
        replaces: bool = False,
    ) -> None:
        self._state = state
        self._replaces = replaces
        self._configured = parse_users(configured or "")
        self._credentials: dict[str, dict[str, ScramCredential]] = {}
        for entry in state.section(SECTION):
            try:
                credential = _from_entry(entry)
            except (KeyError, TypeError, ValueError) as error:
                raise StorageError(f"a user in the data directory is damaged ({error})") from error
            self._credentials.setdefault(entry["user"], {})[entry["mechanism"]] = credential
        self._add_configured()

    def credential(self, mechanism: ScramMechanism, user: str) -> ScramCredential | None:
        """Return the credential of a user, or None."""
        return self._credentials.get(user, {}).get(mechanism.name)

    def users(self) -> list[str]:
        """Return the users with credentials."""
        return list(self._credentials)

    def of_user(self, user: str) -> Mapping[str, ScramCredential]:
        """Return a user's credentials by mechanism."""
        return self._credentials.get(user, {})

    def alter(
        self, request: AlterUserScramCredentialsRequest
    ) -> Generator[None, None, list[UserResult]]:
        """Apply and store the changes of a request, in steps; return one result per user.

        Each user may be named once. Refused changes do not prevent the others. Raises StorageError
        without changing anything.
        """
        errors: dict[str, UserResult] = {}
        deletions: dict[str, ScramCredentialDeletion] = {}
        upsertions: dict[str, ScramCredentialUpsertion] = {}
        for count, deletion in enumerate(request.deletions):
            name = deletion.name
            if name in errors:
                pass
            elif deletions.pop(name, None) is not None:
                errors[name] = UserResult(name, ErrorCode.DUPLICATE_RESOURCE, TWICE)
            elif problem := self._check_deletion(deletion):
                errors[name] = problem
            else:
                deletions[name] = deletion
            if count % _PER_STEP == 0:
                yield
        for count, upsertion in enumerate(request.upsertions):
            name = upsertion.name
            known = deletions.pop(name, None), upsertions.pop(name, None)
            if name in errors:
                pass
            elif any(credential is not None for credential in known):
                errors[name] = UserResult(name, ErrorCode.DUPLICATE_RESOURCE, TWICE)
            elif problem := _check_upsertion(upsertion):
                errors[name] = problem
            else:
                upsertions[name] = upsertion
            if count % _PER_STEP == 0:
                yield
        names = [*deletions, *upsertions]
        if len(names) > MOST_CHANGES:
            text = f"{len(names)} changes at once, {MOST_CHANGES} are the most"
            unknown = ErrorCode.UNKNOWN_SERVER_ERROR
            return [UserResult(name, unknown, text) for name in (*names, *errors)]
        if names:
            new = []
            for other in upsertions.values():
                mechanism = SCRAM_BY_TYPE[other.mechanism]
                credential = credential_of(
                    mechanism, bytes(other.salt), bytes(other.salted_password), other.iterations
                )
                new.append(_New.of(other.name, mechanism.name, credential))
                yield
            gone: dict[tuple[str, str], Kept] = {}
            for name, deletion in deletions.items():
                mechanism = SCRAM_BY_TYPE[deletion.mechanism]
                known_by = {"user": name, "mechanism": mechanism.name}
                gone[name, mechanism.name] = kept(SECTION, known_by)
                yield
            self._change(new, gone)
        return [*map(UserResult, names), *errors.values()]

    def clear(self) -> None:
        """Remove all users except the users in the settings. Raises StorageError."""
        if self._credentials:
            self._state.clear(SECTION)
            self._credentials.clear()
            self._add_configured()

    def _add_configured(self) -> None:
        new = [
            _New.of(user.name, user.mechanism.name, _credential_of(user))
            for user in self._configured
            if self._replaces or self.credential(user.mechanism, user.name) is None
        ]
        if new:
            self._change(new)

    def _change(
        self,
        new: Sequence[_New],
        gone: Mapping[tuple[str, str], Kept] = {},
    ) -> None:
        """Store credentials and remove the credentials in `gone`, some of which may not exist."""
        self._state.change_kept(
            SECTION,
            put=[change.kept for change in new],
            drop=list(gone.values()),
        )
        for user, mechanism in gone:
            of_user = self._credentials.get(user, {})
            of_user.pop(mechanism, None)
            if not of_user:
                self._credentials.pop(user, None)
        for change in new:
            self._credentials.setdefault(change.user, {})[change.mechanism] = change.credential

    def _check_deletion(self, deletion: ScramCredentialDeletion) -> UserResult | None:
        problem = _check_name(deletion.name, deletion.mechanism)
        if problem is not None:
            return problem
        if self.credential(SCRAM_BY_TYPE[deletion.mechanism], deletion.name) is None:
            return UserResult(
                deletion.name,
                ErrorCode.RESOURCE_NOT_FOUND,
                "Attempt to delete a user credential that does not exist",
            )
        return None


def parse_users(text: str) -> list[ConfiguredUser]:
    """Parse the users of a setting, in the `--add-scram` format of Kafka's storage tool.

    The format is `SCRAM-SHA-256=[name=alice,iterations=8192,password=secret]`, with several users
    separated by `;`. The password comes last and may contain any character: it ends at the `]`
    before the end of the text or the next user. Double quotes around a value are removed. Raises
    ConfigError, without passwords in the message.
    """
    try:
        text.encode()
    except UnicodeEncodeError:  # invalid UTF-8 in an environment variable
        raise ConfigError("scram.users: it is no text in UTF-8") from None
    users: list[ConfiguredUser] = []
    position = 0
    while position < len(text.rstrip()):
        match = _CONFIGURED_USER.match(text, position)
        mechanism = match and SCRAM_BY_NAME.get(match["mechanism"])
        if match is None or mechanism is None:
            raise ConfigError(
                f"scram.users: user {len(users) + 1}: MECHANISM=[name=NAME,password=PASSWORD] is "
                f"expected, with one of {', '.join(SCRAM_BY_NAME)}"
            )
        iterations = int(match["iterations"] or mechanism.min_iterations)
        if not mechanism.min_iterations <= iterations <= MAX_ITERATIONS:
            raise ConfigError(
                f"scram.users: user {len(users) + 1}: iterations are {mechanism.min_iterations} to "
                f"{MAX_ITERATIONS}"
            )
        name, password = map(_unquoted, match.group("name", "password"))
        users.append(ConfiguredUser(mechanism, name, password, iterations))
        position = match.end()
    return users


def _unquoted(text: str) -> str:
    """Return a value without the double quotes around it. Source: ScramParser."""
    is_quoted = len(text) > 2 and text[0] == text[-1] == '"'
    return text[1:-1] if is_quoted else text


def _check_name(user: str, mechanism: int) -> UserResult | None:
    if not user:
        return UserResult(user, ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    if mechanism not in SCRAM_BY_TYPE:
        return UserResult(user, ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    return None


def _check_upsertion(upsertion: ScramCredentialUpsertion) -> UserResult | None:
    user = upsertion.name
    problem = _check_name(user, upsertion.mechanism)
    if problem is not None:
        return problem
    if upsertion.iterations < SCRAM_BY_TYPE[upsertion.mechanism].min_iterations:
        return UserResult(user, ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    if upsertion.iterations > MAX_ITERATIONS:
        return UserResult(user, ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
    return None


def _credential_of(user: ConfiguredUser) -> ScramCredential:
    return new_credential(user.mechanism, user.password, user.iterations)


class _New(NamedTuple):
    """A user's new credential for one mechanism, with its encoded entry."""

    user: str
    mechanism: str
    credential: ScramCredential
    kept: Kept

    @classmethod
    def of(cls, user: str, mechanism: str, credential: ScramCredential) -> _New:
        """Return a _New with the encoded entry; encoding is most of the work."""
        return cls(
            user, mechanism, credential, kept(SECTION, _to_entry(user, mechanism, credential))
        )


def _to_entry(user: str, mechanism: str, credential: ScramCredential) -> Mapping[str, Any]:
    return {
        "user": user,
        "mechanism": mechanism,
        "salt": base64.b64encode(credential.salt).decode(),
        "stored_key": base64.b64encode(credential.stored_key).decode(),
        "server_key": base64.b64encode(credential.server_key).decode(),
        "iterations": credential.iterations,
    }


def _from_entry(entry: Mapping[str, Any]) -> ScramCredential:
    """Return the credential of a `_to_entry` result.

    Raises KeyError, TypeError or ValueError if the entry is invalid.
    """
    if not (isinstance(entry["user"], str) and isinstance(entry["iterations"], int)):
        raise TypeError("a user is no text, or its iterations are no number")
    if entry["mechanism"] not in SCRAM_BY_NAME:
        raise ValueError("a mechanism that is not known")
    return ScramCredential(
        base64.b64decode(entry["salt"]),
        base64.b64decode(entry["stored_key"]),
        base64.b64decode(entry["server_key"]),
        entry["iterations"],
    )
