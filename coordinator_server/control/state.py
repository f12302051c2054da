"""ControlState: what the requests to one control server share."""

from __future__ import annotations

import hmac
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from coordinator_server.control.errors import ControlError
from coordinator_server.events.log import LOG
from coordinator_server.metrics.lag import RecordTimes

if TYPE_CHECKING:
    import asyncio

    from coordinator_server.cluster import Cluster
    from coordinator_server.cluster_restore import ServedCluster
    from coordinator_server.control.feed import Feed
    from coordinator_server.control.login import Logins
    from coordinator_server.metrics.scrape import Scraper
    from coordinator_server.registry.address import RegistryAddress
    from coordinator_server.registry.decoder import RegistryDecoder
    from coordinator_server.security.principal import Principal

LagSamples = Callable[[str], Sequence[tuple[int, int | None]]]
"""Returns samples of a group: the broker's time in ms and the lag, the oldest first."""


class ControlOptions:
    """The options of the control server: `--http-read-only`, `--http-login`, `--http-registry`."""

    def __init__(
        self,
        *,
        is_read_only: bool = False,
        requires_login: bool = False,
        registry: RegistryAddress | None = None,
    ) -> None:
        self.is_read_only = is_read_only
        self.requires_login = requires_login
        self.registry = registry


class ControlState:
    """The state of one control server. `started_at_ms` is by the machine's clock.

    `served` replaces the cluster, None if that is not possible.
    """

    def __init__(
        self,
        cluster: Cluster,
        options: ControlOptions,
        token: str | None,
        served: ServedCluster | None = None,
    ) -> None:
        self.options = options
        self.served = served
        self.restoring: asyncio.Task[Any] | None = None
        """The task of the request that replaces the cluster, also while it prepares the data."""
        self.started_at_ms = time.time_ns() // 1_000_000
        self.record_times = RecordTimes()
        """Timestamps of the oldest unread records, see `lag`."""
        self._cluster = cluster
        self._authorization = None if token is None else f"Bearer {token}".encode()
        self._logins: Logins | None = None
        self._feed: Feed | None = None
        self._registry: RegistryDecoder | None = None
        self.scraper: Scraper | None = None
        """What has answered a request for metrics."""
        self.lag_samples: LagSamples = lambda _: ()
        """Returns the lag of a group over time; set by the control server, see `lag_history`."""

    @property
    def is_protected(self) -> bool:
        """Whether requests need a token or a login."""
        return self._authorization is not None or self.options.requires_login

    @property
    def logins(self) -> Logins:
        """The users' sessions, created with the first login."""
        if self._logins is None:
            from coordinator_server.control.login import Logins

            self._logins = Logins(self._cluster)
        return self._logins

    @property
    def feed(self) -> Feed:
        """The events of the cluster, created for the first listener."""
        if self._feed is None:
            from coordinator_server.control.feed import Feed

            self._feed = Feed(self._cluster)
        return self._feed

    @property
    def registry(self) -> RegistryDecoder | None:
        """What decodes records with the schemas of a registry; None without a registry."""
        address = self.options.registry
        if self._registry is None and address is not None:
            from coordinator_server.registry.decoder import RegistryDecoder

            self._registry = RegistryDecoder(
                address,
                lambda reason: LOG.emit("registry.failed", url=address.url, reason=reason),
            )
        return self._registry

    def use(self, cluster: Cluster) -> None:
        """Serve another cluster. Logins stay valid while their users have the same passwords."""
        self.stop()
        self._cluster, self._feed, self.scraper = cluster, None, None
        self.record_times = RecordTimes()
        if self._logins is not None:
            self._logins.use(cluster)

    def stop(self) -> None:
        """End the events, the measurement of the event loop, and the decoding of records."""
        if self._registry is not None:
            self._registry.stop()
        if self._feed is not None:
            self._feed.stop()
        if self.scraper is not None:
            self.scraper.stop()

    async def user_of(self, given: str, client_host: str) -> Principal | None:
        """Return the user of the header Authorization; None if the request may do everything.

        Raises ControlError without a valid token or login, if one is required.
        """
        requires_login = self.options.requires_login
        if self._authorization is None and not requires_login and not given:
            return None
        expected = self._authorization
        if expected is not None and hmac.compare_digest(given.encode("utf-8", "replace"), expected):
            return None
        if requires_login and given:
            user = await self.logins.user_of(given, client_host)
            if user is not None:
                return user
        if requires_login:
            ways = 'Basic realm="coordinator-server", charset="UTF-8"'
            challenge = {"WWW-Authenticate": ways if expected is None else f"{ways}, Bearer"}
            text = "log in as a user of the broker: POST /login, or Authorization: Basic"
            if given:
                text = f"unknown user, wrong password, or ended session: {text}"
            raise ControlError(401, text, challenge)
        if expected is None:
            return None
        text = "the token of --http-token-file is missing or wrong: Authorization: Bearer TOKEN"
        raise ControlError(401, text, {"WWW-Authenticate": "Bearer"})
