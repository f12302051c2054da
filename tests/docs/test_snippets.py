"""The commands and the code of every page of the documentation work.

Other modules test docs/testing.md (tests/testing/test_docs.py), docs/pipeline.md
(tests/pipeline/test_docs.py) and README.md (tests/e2e/test_readme.py).
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest
import yaml

from coordinator_server.cli import is_command
from tests import forked
from tests.docs.snippets import PAGES, blocks, check, commands, inline_code
from tests.support import ROOT, Broker, Serve, free_port

BROKER_SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}

NOT_RUN = (
    (r"README.md|CONTRIBUTING.md", "", "has tests of its own: tests/e2e/test_readme.py"),
    (r"docs/(testing|pipeline|tutorial).md", "", "has tests of its own"),
    (r"docs/(conformance|simulation|record-batches).md", "", "runs test suites for minutes"),
    (r"examples/", "", "runs in a copy of the folder: tests/e2e/test_examples.py"),
    (r"benchmarks/README.md", "", "measures for minutes: tests/unit/test_stages.py"),
    (r"", r"make ", "runs test suites for minutes"),
    (r"", r"python -m tests\.conformance\.access", "starts a Kafka"),
    (r"", r"coordinator-server serve", "serves until it is stopped: tests below, tests/e2e"),
    (r"docs/control-api.md", "", "needs a control server: tests/e2e/test_control_api.py"),
    (r"docs/docker.md", "", "needs Docker: tests/compose/test_documentation.py"),
    (r"docs/doctor.md", "", "shows the output for a broken client: tests/e2e/test_doctor.py"),
    (r"docs/migration.md", "", "needs a second cluster: tests/e2e/test_migration.py"),
    (r"docs/rebalances.md", r"coordinator-server explain", "tests/e2e/test_explain.py"),
    (r"docs/tools.md", r"coordinator-server dump-log", "tests/unit/tools"),
    (r"docs/sasl.md", r"coordinator-server users", "needs users: tests/e2e/test_users.py"),
    (
        r"docs/sasl.md",
        r"coordinator-server delegation-tokens",
        "needs users: tests/e2e/test_delegation_tokens.py",
    ),
    (r"docs/dev-security.md", r"coordinator-server topics", "runs with the page's broker, below"),
)
"""Page, command and reason: what the test of all commands does not run. Both are patterns."""

QUOTED = {"docs/protocol.md": "protocol"}
"""Pages whose Python code is a part of the sources: page -> folder of these sources."""

SHORTENED = "docs/conformance.md"
"""The page whose Python code shortens and explains scenarios, which cannot be run alone."""


def runnable(page: str) -> list[list[str]]:
    """Return the commands of a page that run against a plain broker."""
    return [words for words in commands(page) if reason(page, " ".join(words)) is None]


def reason(page: str, command: str) -> str | None:
    """Return why a command of a page is not run, or None."""
    for page_pattern, command_pattern, why in NOT_RUN:
        path = command.replace(".venv/bin/", "")
        if re.match(page_pattern, page) and re.match(command_pattern, path):
            return why
    return None


@pytest.mark.parametrize("page", PAGES)
def test_every_command_is_understood(page: str) -> None:
    """The program of each command in a code block accepts its options, and its files exist."""
    for words in commands(page):
        check(words)


@pytest.mark.parametrize("page", PAGES)
def test_every_command_in_a_sentence_exists(page: str) -> None:
    """Inline code that begins with `coordinator-server` or `make` names a command or a target."""
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for code in inline_code(page):
        program, _, rest = code.partition(" ")
        name = rest.split(" ")[0].rstrip(",")
        if re.fullmatch(r"[a-z][a-z-]*", name):
            assert name in targets if program == "make" else is_command(name), code


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """A broker with an authorizer, and with the topics and groups that the pages' commands use."""
    with Broker(BROKER_SETTINGS) as broker:
        for topic in ("orders", "jobs"):
            broker.create_topic(topic, partitions=4)
            broker.produce(topic, *"abcdefghijkl")
        producer = confluent_kafka.Producer(
            {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "app-1"}
        )
        producer.init_transactions(30)
        yield broker


@pytest.mark.parametrize("page", [page for page in PAGES if runnable(page)])
def test_the_commands_run(page: str, broker: Broker) -> None:
    """Each command of a page exits with 0, one after the other."""
    other_port = str(free_port())
    for words in runnable(page):
        address = broker.bootstrap_servers
        words = [re.sub(r"(localhost|127\.0\.0\.1):9092", address, word) for word in words]
        done = _run([word.replace(":9093", f":{other_port}") for word in words])
        assert done.returncode == 0, (words, done.stdout, done.stderr)


def _run(words: list[str], **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command of the documentation; a consumer ends when it has read all records."""
    program, *arguments = words
    name = Path(program).name
    if name.removesuffix(".sh").startswith("kafka-"):
        command = [sys.executable, "-m", "coordinator_server.container.scripts", name]
    elif name == "python":
        command = [sys.executable]
    else:
        command = [sys.executable, "-m", "coordinator_server"]
    if re.search(r"console-(share-)?consumer", name) or {"consume", "share-consume"} & set(words):
        arguments += ["--timeout-ms", "3000"]
    return forked.run([*command, *arguments], env={**os.environ, **environment}, timeout=60)


def _code(page: str, language: str) -> list[str]:
    return [block.text for block in blocks(page) if block.language == language]


@pytest.mark.parametrize("page", QUOTED)
def test_code_that_is_quoted_is_in_the_sources(page: str) -> None:
    """Every statement of a quoted function or class is in the definition of the same name."""
    sources = {
        node.name: statements(node)
        for path in (ROOT / QUOTED[page]).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
    }
    for code in _code(page, "python"):
        (node,) = ast.parse(code).body
        assert isinstance(node, ast.FunctionDef | ast.ClassDef)
        assert statements(node) <= sources[node.name]


def statements(definition: ast.FunctionDef | ast.ClassDef) -> set[str]:
    """Return the statements of a definition, without its docstring and without comments."""
    body = definition.body[1:] if ast.get_docstring(definition) else definition.body
    return {ast.unparse(statement) for statement in body}


def test_shortened_code_defines_scenarios() -> None:
    """Each block of Python code in docs/conformance.md defines one function, with a docstring."""
    for code in _code(SHORTENED, "python"):
        (node,) = ast.parse(code).body
        assert isinstance(node, ast.FunctionDef)
        assert ast.get_docstring(node)


def test_other_python_code_is_run() -> None:
    """Each page with Python code has a test, in this module or in one that its docstring names."""
    pages = {page for page in PAGES if _code(page, "python")}
    assert pages == {
        *QUOTED,
        SHORTENED,
        "README.md",
        "docs/consumer-groups.md",
        "docs/dev-security.md",
        "docs/docker.md",
        "docs/faults.md",
        "docs/testing.md",
        "docs/tls.md",
        "docs/tutorial.md",
    }


@pytest.mark.parametrize("page", PAGES)
def test_yaml_is_a_compose_file(page: str) -> None:
    """Each YAML block parses, and has services that run an image with known settings."""
    for text in _code(page, "yaml"):
        parsed = yaml.safe_load(text)
        services = parsed.get("services", parsed)
        assert services
        assert all(isinstance(service, dict) for service in services.values())


def test_the_consumer_of_the_new_protocol_runs(broker: Broker) -> None:
    """The consumer of docs/consumer-groups.md joins a consumer group."""
    (code,) = _code("docs/consumer-groups.md", "python")
    code = code.replace("127.0.0.1:9092", broker.bootstrap_servers)
    code += "while not consumer.assignment(): consumer.poll(0.1)\nconsumer.close()\n"
    _run_python(code, ROOT)
    group = broker.group("readers")
    assert group is not None
    assert group.type == "consumer"


def _run_python(code: str, directory: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_the_broker_with_security_serves_the_code_of_its_page(tmp_path: Path) -> None:
    """The client of docs/dev-security.md sends a record, and its command lists the topic."""
    page = "docs/dev-security.md"
    (code,) = _code(page, "python")
    serve, topics = commands(page)
    assert serve[1:] == ["serve", "--dev-security", "./security"]
    arguments = ("--ephemeral", "--dev-security", str(tmp_path / "security"))
    with Serve(*arguments, listener="localhost:0") as broker:
        _run_python(code.replace("localhost:9092", broker.bootstrap_servers), tmp_path)
        words = [
            word.replace("localhost:9092", broker.bootstrap_servers).replace(
                "security/", f"{tmp_path}/security/"
            )
            for word in topics
        ]
        assert _run(words).stdout == "orders\n"


def test_the_certificates_of_the_tls_page_work(tmp_path: Path) -> None:
    """The commands, the settings and the client of docs/tls.md work together."""
    page = "docs/tls.md"
    (script,) = _code(page, "sh")
    settings, *_ = _code(page, "properties")
    (client,) = _code(page, "python")
    subprocess.run(["bash", "-e", "-c", script], cwd=tmp_path, check=True, capture_output=True)
    port, tls_port = free_port(), free_port()
    for name in ("broker-store.pem", "ca.pem"):
        settings = settings.replace(f"={name}", f"={tmp_path / name}")
    settings = settings.replace(":9092", f":{port}").replace(":9093", f":{tls_port}")
    (tmp_path / "server.properties").write_text(settings)
    config = str(tmp_path / "server.properties")
    with Serve("--ephemeral", "--config", config, listener=None):
        _run_python(client.replace(":9093", f":{tls_port}"), tmp_path)


# --- tutorial -------------------------------------------------------------------------------------

TUTORIAL = "docs/tutorial.md"


def _masked(text: str) -> list[str]:
    """Return the lines of a text with times, numbers and ids replaced."""
    text = re.sub(r"console-consumer-[0-9a-f]{8}", "CONSUMER", text)
    # The output omits phases of less than a millisecond.
    text = re.sub(r"\d[\d ]* ms", "# ms", text).replace(", sync # ms", "")
    text = re.sub(r"^[-\d]+ [\d:.]+Z", "TIME", text, flags=re.MULTILINE)
    # Random member ids decide which member gets which partitions.
    return re.sub(r"orders \d-\d", "orders #-#", text).splitlines()


@pytest.mark.real_time
def test_the_tutorial_can_be_followed(tmp_path: Path) -> None:
    """The commands and the test of the tutorial work in order, and print what the page shows."""
    install, serve, records, run_test, rebalance = _code(TUTORIAL, "sh")
    printed, explained = _code(TUTORIAL, "text")
    (test,) = _code(TUTORIAL, "python")
    assert "pip install PATH/TO/coordinator-server pytest kafka-python" in install
    assert serve == "coordinator-server serve --ephemeral --listener 127.0.0.1:9092\n"
    (tmp_path / "venv" / "bin").mkdir(parents=True)
    (tmp_path / "venv" / "bin" / "activate").touch()
    (tmp_path / "test_orders.py").write_text(test)
    with Serve("--ephemeral") as broker:
        assert _bash(records, broker, tmp_path).endswith(printed)
        assert "2 passed" in _bash(run_test, broker, tmp_path)
        out = _bash(f"{rebalance}\nkill %1; wait", broker, tmp_path)
    assert _masked(out) == _masked(explained)


def _bash(script: str, broker: Serve, directory: Path) -> str:
    """Run a script with this interpreter's programs, and return its standard output."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", script.replace("127.0.0.1:9092", broker.bootstrap_servers)],
        cwd=directory,
        env={**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
        timeout=120,
        check=False,
    )
    return done.stdout
