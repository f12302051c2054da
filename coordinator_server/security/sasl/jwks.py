"""The keys that verify tokens: a JWK set, read from a file or fetched by HTTP.

Source: Kafka's RefreshingHttpsJwks, JwksFileVerificationKeyResolver. A thread fetches the keys, so
that the event loop is not blocked. Tokens are refused until the first keys have been fetched.
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
import time
from collections import OrderedDict
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

from coordinator_server.config.config import ConfigError
from coordinator_server.events.log import LOG

MOST_BYTES = 1024 * 1024
FETCH_SECONDS = 10.0
_MISSES = 16
_MISS_MS = 60_000


class Jwks:
    """The keys at one URL. Raises ConfigError for a file without usable keys."""

    def __init__(
        self, url: str, refresh_ms: int, backoff_ms: int, backoff_max_ms: int, setting: str
    ) -> None:
        self._url = url
        self._refresh_ms = refresh_ms
        self._backoff_ms, self._backoff_max_ms = backoff_ms, backoff_max_ms
        self._keys: list[Any] = []
        self._path: str | None = None
        self._stamp: tuple[int, int] | None = None
        self._is_fetching = self._is_stopped = False
        self._failures = 0
        self._missed: OrderedDict[str, float] = OrderedDict()
        self._timer: asyncio.TimerHandle | None = None
        if refresh_ms <= 0:
            name = f"{setting.removesuffix('url')}refresh.ms"
            raise ConfigError(f"{name}: {refresh_ms} is no time between two fetches")
        parts = urlsplit(url)
        # Do not log the user info and the query of the URL: they may hold secrets.
        self._shown = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
        if parts.scheme == "file":
            self._path = url2pathname(parts.path)
            try:
                self._read_file(self._path)
            except (OSError, ValueError) as error:
                raise ConfigError(f"{setting}: {self._shown}: {_reason(error)}") from None
        elif parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError(f"{setting}: {self._shown} is no file:, http: or https: URL")
        else:
            self._begin_fetch()

    def stop(self) -> None:
        """Fetch no more keys. A fetch in progress has no effect."""
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()

    def current(self) -> list[Any]:
        """Return the current keys as PyJWT objects."""
        if self._path is not None:
            try:
                self._read_file(self._path)
            except (OSError, ValueError) as error:
                LOG.emit("jwks.failed", url=self._shown, reason=_reason(error))
        return self._keys

    def misses(self, key_id: str) -> None:
        """Fetch the keys because a token names an unknown key, at most once a minute per key id."""
        now_ms = time.monotonic() * 1000
        if self._path is not None or self._missed.get(key_id, 0) > now_ms:
            return
        self._missed[key_id] = now_ms + _MISS_MS
        while len(self._missed) > _MISSES:
            self._missed.popitem(last=False)
        self._begin_fetch()

    def _read_file(self, path: str) -> None:
        """Read the file if it has changed. Raises OSError, ValueError."""
        status = os.stat(path)
        stamp = status.st_mtime_ns, status.st_size
        if stamp == self._stamp:
            return
        self._stamp = stamp
        with open(path, "rb") as file:
            self._keys = parse_keys(file.read(MOST_BYTES + 1))

    def _begin_fetch(self) -> None:
        if self._is_fetching or self._is_stopped:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        loop = asyncio.get_running_loop()
        self._is_fetching = True  # `_fetched` resets this flag
        threading.Thread(target=self._fetch, args=(loop,), name="jwks", daemon=True).start()

    def _fetch(self, loop: asyncio.AbstractEventLoop) -> None:
        """Fetch the keys; runs in a thread."""
        keys, problem = None, "a bug"  # the problem if an unexpected exception ends the thread
        try:
            keys = parse_keys(fetch(self._url))
        except (OSError, ValueError) as error:
            problem = _reason(error)
        finally:
            with suppress(RuntimeError):  # the event loop closes when the broker stops
                loop.call_soon_threadsafe(self._fetched, keys, problem)

    def _fetched(self, keys: list[Any] | None, problem: str) -> None:
        self._is_fetching = False
        if self._is_stopped:
            return
        delay_ms = self._refresh_ms
        if keys is None:
            LOG.emit("jwks.failed", url=self._shown, reason=problem)
            delay_ms = min(self._backoff_ms << min(self._failures, 20), self._backoff_max_ms)
            self._failures += 1
        else:
            self._keys, self._failures = keys, 0
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(max(delay_ms, 1) / 1000, self._begin_fetch)


def fetch(url: str) -> bytes:
    """Return the content at a URL. Raises OSError, ValueError; also on timeout or if too large.

    A redirect from https to another scheme is refused, because the keys could be tampered with.
    """
    from http.client import HTTPException
    from urllib.error import URLError
    from urllib.request import HTTPRedirectHandler, Request, build_opener

    class Redirects(HTTPRedirectHandler):
        def redirect_request(self, req: Request, *arguments: Any) -> Request | None:
            new_url = arguments[-1]
            if urlsplit(new_url).scheme != "https" and urlsplit(req.full_url).scheme == "https":
                raise URLError("a redirect that leaves https")
            return super().redirect_request(req, *arguments)

    end_s = time.monotonic() + FETCH_SECONDS
    opener = build_opener(Redirects)
    received = bytearray()
    try:
        request = Request(url, headers={"Accept": "application/json"})
        with opener.open(request, timeout=FETCH_SECONDS) as answer:
            while piece := answer.read1(65536):
                received += piece
                if len(received) > MOST_BYTES:
                    raise ValueError(f"more than {MOST_BYTES} bytes")
                if time.monotonic() > end_s:
                    raise TimeoutError(f"not there after {FETCH_SECONDS:g} s")
    except HTTPException as error:
        raise OSError(type(error).__name__) from error
    return bytes(received)


def parse_keys(contents: bytes) -> list[Any]:
    """Return the usable keys of a JWK set. Raises ValueError if there are none."""
    import jwt
    from cryptography.exceptions import UnsupportedAlgorithm

    if len(contents) > MOST_BYTES:
        raise ValueError(f"more than {MOST_BYTES} bytes")
    try:
        parsed = json.loads(contents)
    except RecursionError:
        raise ValueError("no JWK set (RecursionError)") from None
    entries = parsed.get("keys") if isinstance(parsed, dict) else None
    if not isinstance(entries, list):
        raise ValueError("no JWK set")
    keys = []
    for entry in entries:
        # PyJWT does not validate keys: fields may be missing or have any type.
        with suppress(
            *(jwt.PyJWTError, UnsupportedAlgorithm, ValueError, TypeError, AttributeError),
            *(LookupError, ArithmeticError, RecursionError, NotImplementedError),
        ):
            keys.append(jwt.PyJWK(entry))
    if not keys:
        raise ValueError("a JWK set without a key that can be used")
    return keys


def _reason(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or getattr(error, "reason", None) or error)
