"""Shorthand constructors for rows of the table of settings."""

from storage.config_def import INT_MAX, LONG_MAX, SHORT_MAX, Kind, Setting


def boolean(name: str, default: bool, meaning: str) -> Setting:
    """Return the row of a BOOLEAN."""
    return Setting(name, Kind.BOOLEAN, default, meaning)


def string(name: str, default: str | None, meaning: str, choices: tuple[str, ...] = ()) -> Setting:
    """Return the row of a STRING."""
    return Setting(name, Kind.STRING, default, meaning, choices=choices)


def a_list(
    name: str,
    default: tuple[str, ...] | None,
    meaning: str,
    choices: tuple[str, ...] = (),
    *,
    may_be_empty: bool = False,
) -> Setting:
    """Return the row of a LIST."""
    return Setting(name, Kind.LIST, default, meaning, choices=choices, may_be_empty=may_be_empty)


def short(name: str, default: int, meaning: str, least: int) -> Setting:
    """Return the row of a SHORT."""
    return Setting(name, Kind.SHORT, default, meaning, least, SHORT_MAX)


def integer(name: str, default: int, meaning: str, least: int = 0, most: int = INT_MAX) -> Setting:
    """Return the row of an INT."""
    return Setting(name, Kind.INT, default, meaning, least, most)


def long(name: str, default: int, meaning: str, least: int = 0) -> Setting:
    """Return the row of a LONG."""
    return Setting(name, Kind.LONG, default, meaning, least, LONG_MAX)


def double(name: str, default: float, meaning: str) -> Setting:
    """Return the row of a DOUBLE without limits."""
    return Setting(name, Kind.DOUBLE, default, meaning)
