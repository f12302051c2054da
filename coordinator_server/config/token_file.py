"""The file with the token of the control server."""

from __future__ import annotations

from pathlib import Path

LEAST_CHARACTERS = 16


def read_token(path: str) -> str:
    """Return the token in a file, stripped of white space.

    Raises ValueError; the message does not contain the token.
    """
    try:
        token = Path(path).read_text(encoding="ascii").strip()
    except UnicodeError:
        raise ValueError(f"{path}: a token has ASCII characters only") from None
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from error
    if len(token) < LEAST_CHARACTERS or not token.isprintable() or " " in token:
        raise ValueError(
            f"{path}: a token is one word of at least {LEAST_CHARACTERS} characters, such as "
            "`openssl rand -hex 16` prints"
        )
    return token
