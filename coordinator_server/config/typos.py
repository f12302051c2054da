"""Names of settings that neither Kafka nor we know, and what was probably meant."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from coordinator_server.config.other_names import OF_KAFKA, PREFIXES
from coordinator_server.config.settings import LISTENER_SETTINGS, SETTINGS

LISTENER_PREFIX = "listener.name."


def describe_unknown(unknown: Mapping[str, str | None]) -> str:
    """Unknown names, each with the setting that was probably meant."""
    return "; ".join(
        f"{name}: there is no such setting"
        + ("" if similar is None else f", did you mean {similar}?")
        for name, similar in unknown.items()
    )


def most_similar(name: str) -> str | None:
    """The setting whose name resembles `name` most; None if none does, or if `name` is known."""
    if name.startswith(LISTENER_PREFIX):
        return _most_similar_of_listener(name)
    if name in OF_KAFKA or name.startswith(PREFIXES):
        return None
    return closest(name, (*SETTINGS, *OF_KAFKA))


def _most_similar_of_listener(name: str) -> str | None:
    """The same for listener.name.NAME.SETTING and listener.name.NAME.MECHANISM.SETTING."""
    listener, _, setting = name.removeprefix(LISTENER_PREFIX).partition(".")
    stem = f"{LISTENER_PREFIX}{listener}."
    if not setting.lower().startswith(("ssl.", "sasl.")):
        mechanism, _, rest = setting.partition(".")
        if rest:
            stem, setting = f"{stem}{mechanism}.", rest
    if setting in OF_KAFKA or setting in SETTINGS:
        return None  # known, but of no effect for a listener
    similar = closest(setting, LISTENER_SETTINGS)
    return None if similar is None else stem + similar


def closest(name: str, known: Iterable[str]) -> str | None:
    """The known name that resembles `name` most; None if none does."""
    from difflib import get_close_matches  # only a typo needs it

    similar = get_close_matches(name.lower(), known, n=1, cutoff=0.8)
    return similar[0] if similar else None
