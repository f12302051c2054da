"""Suggestions for unknown names of settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from coordinator_server.config.other_names import OF_KAFKA, PREFIXES
from coordinator_server.config.settings import LISTENER_SETTINGS, SETTINGS

LISTENER_PREFIX = "listener.name."


def describe_unknown(unknown: Mapping[str, str | None]) -> str:
    """Return a message about unknown names, each with the most similar setting if any."""
    return "; ".join(
        f"{name}: there is no such setting"
        + ("" if similar is None else f", did you mean {similar}?")
        for name, similar in unknown.items()
    )


def most_similar(name: str) -> str | None:
    """Return the most similar setting; None if no setting is similar or `name` is known."""
    if name.startswith(LISTENER_PREFIX):
        return _most_similar_of_listener(name)
    if name in OF_KAFKA or name.startswith(PREFIXES):
        return None
    return closest(name, (*SETTINGS, *OF_KAFKA))


def _most_similar_of_listener(name: str) -> str | None:
    """Like `most_similar`, for listener.name.NAME.SETTING, with or without a MECHANISM prefix."""
    listener, _, setting = name.removeprefix(LISTENER_PREFIX).partition(".")
    stem = f"{LISTENER_PREFIX}{listener}."
    if not setting.lower().startswith(("ssl.", "sasl.")):
        mechanism, _, rest = setting.partition(".")
        if rest:
            stem, setting = f"{stem}{mechanism}.", rest
    if setting in OF_KAFKA or setting in SETTINGS:
        return None  # no typo: the setting exists, but not for single listeners
    similar = closest(setting, LISTENER_SETTINGS)
    return None if similar is None else stem + similar


def closest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name most similar to `name`; None if no name is similar."""
    from difflib import get_close_matches  # imported here: only typos need this module

    similar = get_close_matches(name.lower(), known, n=1, cutoff=0.8)
    return similar[0] if similar else None
