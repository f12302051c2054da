"""The archive that a cluster gets, the check of its workers, and settings for one machine."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipeline import shipping
from pipeline.session import settings_for
from pipeline.shards import shards_for
from tests.pipeline.standalone import Standalone
from tests.support import ROOT


def test_a_worker_without_such_a_python_is_told_in_one_line(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error has the innermost reason in one line, without stack traces."""
    monkeypatch.setattr(spark.sparkContext, "pythonExec", "/no/such/python")
    with pytest.raises(shipping.WorkerError, match="/no/such/python") as error:
        shipping.check_workers(spark)
    assert "\n" not in str(error.value)


def test_the_archive_is_whole_and_the_same_each_time(tmp_path: Path) -> None:
    """Workers can import all they need from the archive, and equal code gives equal bytes."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    archive = shipping.write_archive(tmp_path / "one")
    assert archive.read_bytes() == shipping.write_archive(tmp_path / "two").read_bytes()
    with zipfile.ZipFile(archive) as opened:
        tops = {name.split("/")[0] for name in opened.namelist()}
    assert tops == {"protocol", "storage", "pipeline", "construct"}
    _decode_from(archive, tmp_path)


def test_the_installed_wheel_ships_itself(tmp_path: Path) -> None:
    """An installed wheel makes the same archive as a checkout."""
    packages = tmp_path / "site" / "coordinator_server" / "_packages"
    packages.mkdir(parents=True)
    (tmp_path / "sent").mkdir()
    for name in shipping.PACKAGES:
        (packages / name).symlink_to(ROOT / name)
    with zipfile.ZipFile(shipping.write_archive(tmp_path)) as opened:
        opened.extractall(packages.parent / "copy")
    code = "import sys; from pathlib import Path; from pipeline import shipping; "
    code += "print(shipping.write_archive(Path(sys.argv[1])))"
    environment = {**os.environ, "PYTHONPATH": str(packages.parent / "copy")}
    command = [sys.executable, "-c", code, str(tmp_path / "sent")]
    subprocess.run(command, env=environment, cwd=tmp_path, check=True, capture_output=True)
    sent = tmp_path / "sent" / shipping.ARCHIVE
    assert sent.read_bytes() == (tmp_path / shipping.ARCHIVE).read_bytes()


def _decode_from(archive: Path, folder: Path) -> None:
    """Import the workers' modules from the archive, with the libraries beside it."""
    cluster = Standalone(folder)
    cluster.libraries.mkdir()
    native = ("numpy", "polars", "_polars_runtime_32", "pyarrow", "cramjam", "google_crc32c")
    cluster.lend(*native, "pyspark", "py4j")
    code = "import pipeline.sources.datasource, construct, pipeline.shards as one"
    code += "; print(one.__file__)"
    environment = {"PYTHONPATH": os.pathsep.join([str(archive), str(cluster.libraries)])}
    command = [sys.executable, "-S", "-c", code]
    done = subprocess.run(
        command, env=environment, cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(str(archive))


@pytest.mark.parametrize(("rows", "shards"), [(0, 2), (500_000, 2), (500_001, 4), (10_000_000, 40)])
def test_a_large_log_is_made_into_tables_in_more_parts(
    spark: SparkSession, rows: int, shards: int
) -> None:
    """A large log has more shards, to limit their size, but at least one per processor."""
    assert shards_for(spark, rows) == shards


def test_settings_of_one_machine_stay_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings for one machine apply to `local` and `local[N]` only."""
    assert [shipping.is_local(one) for one in ("local", "local[2]", "local[*]")] == [True] * 3
    far = ("local-cluster[2,1,512]", "spark://h:7077", "k8s://https://h", "yarn")
    for master in far:
        assert not shipping.is_local(master)
        chosen = settings_for(master, {"spark.executor.memory": "1g"})
        assert chosen["spark.executor.memory"] == "1g"
        assert chosen["spark.sql.session.timeZone"] == "UTC"
        assert not {"spark.driver.host", "spark.driver.bindAddress"} & set(chosen)
        assert "spark.sql.shuffle.partitions" not in chosen
    assert settings_for("local[1]", {})["spark.driver.host"] == "127.0.0.1"
    monkeypatch.setenv("PYSPARK_PYTHON", "before")
    monkeypatch.setenv("PATH", "/bin")
    shipping.name_python({"spark.pyspark.python": "/opt/env/bin/python"})
    assert os.environ["PYSPARK_PYTHON"] == "/opt/env/bin/python"
    assert os.environ["PATH"].split(os.pathsep)[0] == str(Path(sys.executable).parent)
