"""Reads a password: from a file, from the terminal, or from standard input; never an argument."""

from __future__ import annotations

import sys


def read_password(user: str, path: str | None, *, is_new: bool = False) -> str:
    """Return the first line of a file or of standard input, or the text typed at the terminal.

    A new password is typed twice. Raises ValueError for an empty password, OSError for a file that
    cannot be read.
    """
    if path is not None:
        with open(path, encoding="utf-8") as stream:
            password = stream.readline()
    elif sys.stdin.isatty():
        from getpass import getpass

        password = getpass(f"Password of {user}: ")
        if is_new and getpass("Once more: ") != password:
            raise ValueError("the two passwords differ")
    else:
        password = sys.stdin.readline()
    password = password.rstrip("\r\n")
    if not password:
        raise ValueError("the password is empty: type it, pipe it in, or use --password-file")
    return password
