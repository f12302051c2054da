"""What a cluster is sent, what is asked of its machines, and which settings stay here."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pipeline import shipping
from pipeline.session import PARTITIONS, fit_partitions, settings_for
from tests.pipeline.standalone import Standalone
from tests.support import ROOT


def test_a_worker_without_such_a_python_is_told_in_one_line(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The innermost reason, without Java's and Python's traces."""
    monkeypatch.setattr(spark.sparkContext, "pythonExec", "/no/such/python")
    with pytest.raises(shipping.WorkerError, match="/no/such/python") as error:
        shipping.check_workers(spark)
    assert "\n" not in str(error.value)


def test_the_archive_is_whole_and_the_same_each_time(tmp_path: Path) -> None:
    """All that a worker imports of ours comes out of it; equal code makes equal bytes."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    archive = shipping.write_archive(tmp_path / "one")
    assert archive.read_bytes() == shipping.write_archive(tmp_path / "two").read_bytes()
    with zipfile.ZipFile(archive) as opened:
        tops = {name.split("/")[0] for name in opened.namelist()}
    assert tops == {"protocol", "storage", "pipeline", "construct"}
    _decode_from(archive, tmp_path)


def test_the_installed_wheel_ships_itself(tmp_path: Path) -> None:
    """There the packages lie in a folder of ours, which is where the archive is made from."""
    rooms = tmp_path / "site" / "coordinator_server" / "_rooms"
    rooms.mkdir(parents=True)
    (tmp_path / "sent").mkdir()
    for name in shipping.PACKAGES:
        (rooms / name).symlink_to(ROOT / name)
    with zipfile.ZipFile(shipping.write_archive(tmp_path)) as opened:
        opened.extractall(rooms.parent / "copy")
    code = "import sys; from pathlib import Path; from pipeline import shipping; "
    code += "print(shipping.write_archive(Path(sys.argv[1])))"
    environment = {**os.environ, "PYTHONPATH": str(rooms.parent / "copy")}
    command = [sys.executable, "-c", code, str(tmp_path / "sent")]
    subprocess.run(command, env=environment, cwd=tmp_path, check=True, capture_output=True)
    sent = tmp_path / "sent" / shipping.ARCHIVE
    assert sent.read_bytes() == (tmp_path / shipping.ARCHIVE).read_bytes()


def _decode_from(archive: Path, folder: Path) -> None:
    """Import the workers' modules from the archive alone, beside the libraries."""
    cluster = Standalone(folder)
    cluster.libraries.mkdir()
    cluster.lend("numpy", "pyarrow", "cramjam", "google_crc32c", "pyspark", "py4j")
    code = "import pipeline.sources.datasource as one, construct; print(one.__file__)"
    environment = {"PYTHONPATH": os.pathsep.join([str(archive), str(cluster.libraries)])}
    command = [sys.executable, "-S", "-c", code]
    done = subprocess.run(
        command, env=environment, cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(str(archive))


class _Session:
    """What `fit_partitions` touches of a session that was opened with these settings."""

    def __init__(self, settings: dict[str, str]) -> None:
        self.settings = settings
        self.conf = self

    def get(self, name: str, default: str) -> str:
        return self.settings.get(name, default)

    def set(self, name: str, value: str) -> None:
        self.settings[name] = value


@pytest.mark.parametrize(
    ("master", "given", "rows", "parts"),
    [
        ("local[2]", {}, 0, "2"),
        ("local[2]", {}, 1_200_000, "3"),
        ("local[2]", {}, 10_000_000, "20"),
        ("local[2]", {PARTITIONS: "7"}, 10_000_000, "7"),
        ("spark://h:7077", {}, 10_000_000, None),
    ],
)
def test_a_large_log_is_shuffled_in_more_parts(
    master: str, given: dict[str, str], rows: int, parts: str | None
) -> None:
    """So that a part fits into memory; not on a cluster, nor where a number was given."""
    one: Any = _Session(settings_for(master, given))
    fit_partitions(one, rows)
    assert one.settings.get(PARTITIONS) == parts


def test_settings_of_one_machine_stay_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only `local` and `local[N]` run in the driver's process."""
    assert [shipping.is_local(one) for one in ("local", "local[2]", "local[*]")] == [True] * 3
    far = ("local-cluster[2,1,512]", "spark://h:7077", "k8s://https://h", "yarn")
    for master in far:
        assert not shipping.is_local(master)
        chosen = settings_for(master, {"spark.executor.memory": "1g"})
        assert chosen["spark.executor.memory"] == "1g"
        assert chosen["spark.sql.session.timeZone"] == "UTC"
        assert not {"spark.driver.host", "spark.driver.bindAddress"} & set(chosen)
        assert PARTITIONS not in chosen
    assert settings_for("local[1]", {})["spark.driver.host"] == "127.0.0.1"
    monkeypatch.setenv("PYSPARK_PYTHON", "before")
    monkeypatch.setenv("PATH", "/bin")
    shipping.name_python({"spark.pyspark.python": "/opt/env/bin/python"})
    assert os.environ["PYSPARK_PYTHON"] == "/opt/env/bin/python"
    assert os.environ["PATH"].split(os.pathsep)[0] == str(Path(sys.executable).parent)
