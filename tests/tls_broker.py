"""Our broker with the listeners of the TLS conversations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from coordinator_server.testing.process import COMMAND
from tests.support import Serve, free_port
from tests.tls_conversations import LISTENERS, Papers, over_tls


class TlsBroker:
    """A broker with the listeners of the TLS conversations.

    `command` replaces the command that starts the broker.
    """

    def __init__(
        self, papers: Papers, settings: Mapping[str, str], command: Sequence[str] = COMMAND
    ) -> None:
        self.papers = papers
        self.addresses = {name: ("127.0.0.1", free_port()) for name in LISTENERS}
        listeners = ",".join(f"{name}://{host}:{port}" for name, (host, port) in self.pairs())
        protocols = ",".join(f"{name}:{protocol}" for name, protocol in LISTENERS.items())
        given = {
            **papers.settings(),
            "listeners": listeners,
            "listener.security.protocol.map": protocols,
            **settings,
        }
        arguments = [f"--set={name}={value}" for name, value in given.items()]
        self.serve = Serve(
            "--ephemeral", "--log-level", "debug", *arguments, listener=None, command=command
        )

    def pairs(self) -> list[tuple[str, tuple[str, int]]]:
        """Return name and address of each listener."""
        return list(self.addresses.items())

    def ask(self, listener: str = "NONE", client: str | None = None) -> str:
        """Return the outcome of one client's handshake and request."""
        return over_tls(self.addresses[listener], self.papers.client_context(client))


@contextmanager
def serving(papers: Papers, **settings: str) -> Iterator[TlsBroker]:
    """Run a broker with additional settings, given with `_` for `.`."""
    given = {name.replace("_", "."): value for name, value in settings.items()}
    broker = TlsBroker(papers, given)
    with broker.serve:
        yield broker
        assert broker.serve.stop() == 0
