"""The page of served APIs has Kafka's versions, and each version was used by a suite."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from protocol.registry import SPEC_BY_NAME, SPECS
from tests.protocol_coverage import __main__ as recorder
from tests.protocol_coverage.page import DIFFERS, PAGE, condense, kafka_ranges, page, read_seen


def test_the_page_is_up_to_date() -> None:
    """`python -m tests.protocol_coverage print` does not change the page."""
    assert PAGE.read_text(encoding="utf-8") == page()


def test_the_versions_are_those_of_kafka() -> None:
    """Each API has the same versions as in Kafka's brokers."""
    served = {spec.name: (spec.min_version, spec.max_version) for spec in SPECS}
    assert served == kafka_ranges()


def test_what_was_seen_is_served() -> None:
    """Each API was used by a client or a suite, at served versions."""
    seen = read_seen()
    assert seen.keys() == SPEC_BY_NAME.keys()
    for name, found in seen.items():
        used = {one for kind in found for versions in kind.values() for one in versions}
        assert used
        spec = SPEC_BY_NAME[name]
        assert used <= set(range(spec.min_version, spec.max_version + 1)), name


def test_each_difference_is_explained_where_the_page_says() -> None:
    """The links to explanations of differences lead to existing pages and headings."""
    assert DIFFERS.keys() <= SPEC_BY_NAME.keys()
    for text in DIFFERS.values():
        for path, anchor in re.findall(r"\(([\w/.-]+\.md)(?:#([\w-]+))?\)", text):
            heads = re.findall(r"^#+ (.+)$", (PAGE.parent / path).read_text(), re.MULTILINE)
            anchors = {re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads}
            assert not anchor or anchor in anchors, (path, anchor)


def test_uses_are_condensed() -> None:
    """Versions are grouped by client and suite; unknown and unserved versions are left out."""
    lines = [
        "tests/clients/test_a.py\tkafka-python\t3.0\t12\t4\n",
        "tests/clients/test_a.py\tkafka-python-3.0\t\t12\t3\n",
        "tests/oracle/test_b.py\tsomebody\t1\t12\t4\n",
        "\tkgo\t1\t3\t9\n",
        "\tkgo\t1\t3\t99\n",
        "\tkgo\t1\t9999\t0\n",
    ]
    assert condense(lines) == {
        "Heartbeat": {
            "clients": {"kafka-python": [3, 4]},
            "suites": {"clients": [3, 4], "oracle": [4]},
        },
        "Metadata": {"clients": {"franz-go": [9]}, "suites": {}},
    }


def test_an_interrupted_recording_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A recording that was interrupted continues with the unfinished test files.

    Afterwards the uses of all test files are included.
    """
    files = [Path("tests/clients/test_a.py"), Path("tests/oracle/test_b.py")]
    written: list[str] = []
    interrupted = True

    def run(command: tuple[str, ...], env: dict[str, str], **_: Any) -> Any:
        Path(env["API_USES"]).write_text(f"{command[-1]}\n")
        if command[-1] == str(files[0]):
            return subprocess.CompletedProcess(command, recorder.NO_TESTS)
        return subprocess.CompletedProcess(command, -15 if interrupted else recorder.FAILED)

    monkeypatch.setattr(recorder, "USES", tmp_path / ".api-uses")
    monkeypatch.setattr(recorder, "suite_files", lambda: files)
    monkeypatch.setattr(recorder, "write_seen", written.extend)
    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(SystemExit, match=r"test_b.py: .* exit code -15"):
        recorder.record()
    assert not written
    interrupted = False
    files.insert(1, Path("tests/clients/test_c.py"))
    assert recorder.record() == 1
    assert sorted(written) == sorted(f"{path}\n" for path in files)
    assert not (tmp_path / ".api-uses").exists()
