"""The wheel works in an empty environment, even beside packages with the names of our modules."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.control_api import PAGE_FILES
from tests.e2e.examples import EXAMPLES, run_copied
from tests.support import API_VERSIONS_REQUEST, ROOT, Serve, request

PIP = (sys.executable, "-m", "pip")


def run(*command: str | Path) -> None:
    """Run a command; fail with its output."""
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module", autouse=True)
def nothing_on_the_path() -> Iterator[None]:
    """Run the tests without PYTHONPATH, so that only the environment can be imported.

    A pipeline test in this process may have added the checkout to PYTHONPATH, for Spark.
    """
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.delenv("PYTHONPATH", raising=False)
        yield


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout."""
    directory = tmp_path_factory.mktemp("wheel")
    run(*PIP, "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", directory, ".")
    (found,) = directory.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` of an environment with only the wheel and its requirements."""
    directory = tmp_path_factory.mktemp("environment")
    run(sys.executable, "-m", "venv", "--without-pip", directory)
    python = directory / "bin" / "python"
    options = ("--quiet", "--no-compile", "-c", "requirements.lock")
    run(*PIP, "--python", python, "install", *options, wheel)
    return directory / "bin"


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """A directory with packages of our module names, which must never be imported."""
    for name in ("storage", "protocol"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise ImportError('not yours')\n")
    return tmp_path


def test_the_wheel_adds_one_name(wheel: Path) -> None:
    """All modules are under coordinator_server; tests and tools are not in the wheel."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"coordinator_server"}
    assert "coordinator_server/_packages/storage/__init__.py" in names
    assert "coordinator_server/_packages/protocol/registry.py" in names
    assert "coordinator_server/py.typed" in names
    page = {f"coordinator_server/control/page/{name}" for name in PAGE_FILES}
    assert page == {name for name in names if "/control/page/" in name}
    assert any(name.endswith("/LICENSE") for name in names)


@pytest.mark.nightly
@pytest.mark.parametrize("command", ["coordinator-server", "python -m coordinator_server"])
def test_the_wheel_serves_beside_foreign_packages(
    environment: Path, foreign: Path, command: str
) -> None:
    """Script and module work in a directory with foreign packages `storage` and `protocol`."""
    program, *rest = command.split()
    broker = Serve("--ephemeral", command=[str(environment / program), *rest], directory=foreign)
    with broker:
        with broker.connect() as wire:
            assert wire.ask(API_VERSIONS_REQUEST)
            # Metadata for all topics needs a handler, the codec and the storage.
            assert wire.ask(request(3, 1, b"\xff\xff\xff\xff"))
        assert broker.stop() == 0
        assert "Error" not in broker.log


def test_the_image_can_run_what_the_wheel_holds(environment: Path, foreign: Path) -> None:
    """The container's entry point, its healthcheck and Kafka's scripts can import the packages."""
    python = environment / "python"
    entry_point = [str(python), "-P", "-m", "coordinator_server.container.entrypoint"]
    with Serve("--ephemeral", command=entry_point, directory=foreign) as broker:
        path = "import coordinator_server.container as c; print(c.__path__[0])"
        found = subprocess.run([python, "-c", path], capture_output=True, text=True, check=True)
        healthcheck = Path(found.stdout.strip()) / "healthcheck.py"
        script = [str(python), "-P", "-m", "coordinator_server.container.scripts"]
        options = ["--bootstrap-server", broker.bootstrap_servers]
        for command in (
            [str(python), "-I", "-S", str(healthcheck), broker.bootstrap_servers],
            [*script, "kafka-broker-api-versions.sh", *options],
            [*script, "kafka-topics.sh", *options, "--list"],
        ):
            done = subprocess.run(command, capture_output=True, text=True, cwd=foreign, check=False)
            assert done.returncode == 0, done.stderr


def test_the_wheel_says_what_is_public(environment: Path, tmp_path: Path) -> None:
    """Importing an internal module fails with the list of public ones and a workaround."""
    python = environment / "python"

    def run(script: str) -> tuple[int, str]:
        done = subprocess.run(
            [python, "-c", script], capture_output=True, text=True, cwd=tmp_path, check=False
        )
        return done.returncode, done.stderr.strip().splitlines()[-1] if done.stderr else ""

    assert run("import coordinator_server.testing; coordinator_server.__version__") == (0, "")
    code, last = run("import coordinator_server.broker")
    assert code == 1
    assert last.startswith("ImportError: coordinator_server.broker is internal. Public are")
    folder = last.rpartition("put ")[2].removesuffix(" on sys.path")
    assert run(f"import sys; sys.path.append({folder!r}); import coordinator_server.broker")[0] == 0


@pytest.fixture(scope="module")
def with_clients(environment: Path) -> Path:
    """The interpreter of the environment, with pytest and the client libraries added.

    The libraries are last on the interpreter's path. Their directory only links to the checkout,
    and the link is not followed, so `coordinator_server` is imported from the wheel.
    """
    python = environment / "python"
    script = "import sysconfig; print(sysconfig.get_path('purelib'))"
    site = subprocess.run([python, "-c", script], capture_output=True, text=True, check=True)
    path = Path(site.stdout.strip()) / "clients.pth"
    path.write_text(sysconfig.get_path("purelib") + "\n")
    return python


@pytest.mark.nightly
@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_passes_its_tests_with_the_wheel(
    with_clients: Path, example: str, tmp_path: Path
) -> None:
    """A copied example passes its tests with the wheel and without this checkout."""
    script = "import coordinator_server; print(coordinator_server.__file__)"
    found = subprocess.run(
        [with_clients, "-c", script], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert Path(found.stdout.strip()).is_relative_to(with_clients.parents[1])
    run_copied(example, tmp_path, with_clients)
