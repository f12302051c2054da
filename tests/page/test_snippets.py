"""The snippets of the view Connect: complete, with address and security, and they run."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from coordinator_server.client import Client, read_settings
from tests.page.browser import View, wait_for
from tests.support import Broker

pytestmark = pytest.mark.nightly

CLIENTS = [
    "kafka-python",
    "confluent-kafka (Python)",
    "aiokafka",
    "Java",
    "franz-go",
    "kafkajs",
    "Kafka’s scripts",  # noqa: RUF001
]
PYTHON = CLIENTS[:3]


def snippets_of(view: View) -> dict[str, str]:
    """Return the snippets by the names of the clients."""
    parts = view.page.locator("details.snippet")
    parts.first.wait_for()
    names = parts.locator("> summary").all_inner_texts()
    return dict(zip(names, parts.locator("pre").all_text_contents(), strict=True))


@pytest.fixture(scope="module", params=["plaintext", "sasl_ssl"])
def broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """An empty broker without security, and one with SASL_SSL."""
    security = None if request.param == "plaintext" else request.param
    with Broker(security=security) as broker:
        yield broker


@pytest.fixture
def filled(broker: Broker, tmp_path: Path) -> Callable[[str], str]:
    """A function that fills in user and password, with the certificate in `tmp_path`."""
    if not broker.users:
        return str
    (user, password), *_ = broker.users.items()
    assert broker.security_directory is not None
    (tmp_path / "ca.pem").write_text((Path(broker.security_directory) / "ca.pem").read_text())
    return lambda text: text.replace("USER", user).replace("PASSWORD", password)


def test_an_empty_broker_shows_how_to_connect(
    broker: Broker, open_view: Callable[..., View]
) -> None:
    """The overview of an empty broker has the same snippets as the view Connect."""
    view = open_view(broker.control.address)
    overview = snippets_of(view)
    assert list(overview) == CLIENTS
    view.go("connect")
    assert snippets_of(view) == overview
    for name, text in overview.items():
        assert broker.bootstrap_servers in text, name
    if broker.users:
        for name, text in overview.items():
            assert re.search("SCRAM-SHA-512|scram-sha-512|AsSha512", text), name
            assert "USER" in text, name
            assert re.search("SASL_SSL|ssl: |DialTLSConfig", text), name
            assert "ca.pem" in text, name


def test_a_snippet_is_copied(broker: Broker, open_view: Callable[..., View]) -> None:
    """The button copies the whole snippet, and says so."""
    view = open_view(broker.control.address, "connect")
    view.context.grant_permissions(["clipboard-read", "clipboard-write"])
    texts = snippets_of(view)
    for name in CLIENTS:
        part = view.disclose(name)
        part.get_by_role("button", name="Copy").click()
        view.message("Copied.")
        copied = view.page.evaluate("navigator.clipboard.readText()")
        assert copied == texts[name]


def run_until(code: str, directory: Path, expected: str) -> None:
    """Run a program until its output has a text, then end it."""
    command = [sys.executable, "-u", "-c", code]
    output = directory / "output"
    with output.open("w") as file:
        process = subprocess.Popen(command, cwd=directory, stdout=file, stderr=subprocess.STDOUT)
        try:
            wait_for(lambda: expected in output.read_text() or process.poll() is not None, expected)
        finally:
            process.kill()
            process.wait()
    assert expected in output.read_text(), output.read_text()[-2000:]


@pytest.mark.parametrize("client", PYTHON)
def test_a_python_snippet_runs(
    broker: Broker,
    filled: Callable[[str], str],
    open_view: Callable[..., View],
    tmp_path: Path,
    client: str,
) -> None:
    """The text of each Python client reads a record of the topic as it is."""
    if "orders" not in broker.topics():
        broker.create_topic("orders", 1)
        broker.produce("orders", "hello")
    view = open_view(broker.control.address, "connect")
    code = filled(snippets_of(view)[client])
    run_until(code.replace('"app"', f'"app-{client[:5]}"'), tmp_path, "b'hello'")


def test_the_java_properties_connect(
    broker: Broker,
    filled: Callable[[str], str],
    open_view: Callable[..., View],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The properties of the Java client connect with our client, which reads Kafka's names."""
    monkeypatch.chdir(tmp_path)
    view = open_view(broker.control.address, "connect")
    properties: Mapping[str, str] = dict(
        line.split("=", 1) for line in filled(snippets_of(view)["Java"]).splitlines()
    )
    client = Client(properties["bootstrap.servers"], read_settings(properties))
    assert client.metadata(None).brokers
    client.close()


def test_the_scripts_run(
    broker: Broker, filled: Callable[[str], str], open_view: Callable[..., View], tmp_path: Path
) -> None:
    """The commands create the topic, write a line and read it, with the properties shown."""
    view = open_view(broker.control.address, "connect")
    text = filled(snippets_of(view)[CLIENTS[-1]]).replace("topic orders", "topic by-script")
    comments = [line for line in text.splitlines() if line.startswith("#   ")]
    properties = "".join(f"{line.removeprefix('#   ')}\n" for line in comments)
    (tmp_path / "client.properties").write_text(properties)
    create, write, read = [line for line in text.splitlines() if not line.startswith("#")]
    for line, given in ((create, ""), (write, "hello\n"), (f"{read} --max-messages 1", "")):
        command = [sys.executable, "-m", "coordinator_server", *line.split()[1:]]
        done = subprocess.run(
            command, cwd=tmp_path, input=given, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
    assert done.stdout == "hello\n"
    assert broker.topics()["by-script"] == 3
