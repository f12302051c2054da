"""The report: its content, its self-contained page, and its alert."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from pipeline import schema
from pipeline.command import main
from pipeline.report import command
from pipeline.report.drawing import TimeAxis, duration, number
from pipeline.report.findings import Holding, find
from pipeline.report.page import render
from pipeline.report.reading import NoReportError, Output
from pipeline.tables.status import EARLY
from tests.pipeline.report.scene import AT_MS, BEGIN_MS, EVIL, ago, group_row, scene, write
from tests.pipeline.tables.log_rows import commit


def report(*arguments: str) -> int:
    """Run the command and return its exit code."""
    return main(["report", *arguments])


class Tags(HTMLParser):
    """A parser that records all tags and checks that they are properly nested."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Record a start tag."""
        self.seen.append((tag, dict(attrs)))
        if tag not in ("meta",):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Record a tag that closes itself."""
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        """Check that the innermost open tag is closed."""
        assert self.open.pop() == tag


def test_what_is_found_is_worst_first(tmp_path: Path) -> None:
    """Groups are sorted by verdict and lag; risks, skews and expiries have no healthy rows."""
    found = find(Output(scene(tmp_path)))
    assert (found.at_ms, found.from_ms) == (AT_MS, ago(110))
    assert [row["group"] for row in found.groups] == ["stopped", "lagging", EVIL, "healthy"]
    assert found.verdicts == {"ERR": 1, "WARN": 1, "OK": 2}
    assert [row["verdict"] for row in found.risks] == ["at_risk"]
    assert [row["member_id"] for row in found.skews] == ["m-2"]
    assert [row["group"] for row in found.expiries] == ["stopped"]
    assert found.storms == ["lagging"]
    assert found.dead_letters == {"unknown record type 99": 1}


def test_the_lag_over_time_is_replayed(tmp_path: Path) -> None:
    """The lag at each instant shown is the log end minus the last commit."""
    found = find(Output(scene(tmp_path)))
    lines = {line.group: dict(zip(line.times_ms, line.lags, strict=True)) for line in found.lines}
    assert list(lines) == ["stopped", "lagging", "healthy"]

    def log_end(at_ms: int) -> int:
        return min((at_ms - BEGIN_MS) // 600 + 1, 12_000)

    for at_ms, lag in lines["stopped"].items():
        minutes_in = (at_ms - BEGIN_MS) // 60_000
        assert lag == log_end(at_ms) - 100 * min(minutes_in, 80)
    for at_ms, lag in lines["lagging"].items():
        assert lag == log_end(at_ms) - 50 * ((at_ms - BEGIN_MS) // 60_000)
    assert lines["healthy"][AT_MS] == 0


def test_who_held_what_is_drawn_as_one_bar_while_it_stays(tmp_path: Path) -> None:
    """A member that keeps a partition over a rebalance has one span; a new owner has its own."""
    holding = find(Output(scene(tmp_path))).holdings[0]
    assert holding.group == "healthy"
    assert holding.spans == [
        (("orders", 0), "m-1", ago(110), AT_MS),
        (("orders", 1), "m-1", ago(110), AT_MS),
        (("orders", 2), "m-1", ago(110), ago(70)),
        (("orders", 2), "m-2", ago(70), AT_MS),
        (("orders", 3), "m-1", ago(110), ago(70)),
        (("orders", 3), "m-2", ago(70), AT_MS),
    ]


def test_the_page_stands_alone_and_trusts_no_name(tmp_path: Path) -> None:
    """The page is well-formed, loads nothing, and shows any group name as text."""
    page = render(find(Output(scene(tmp_path))))
    tags = Tags()
    tags.feed(page)
    assert tags.open == []
    names = {tag for tag, _ in tags.seen}
    # The only script on the page is the search, and no script may contain a group name.
    scripts = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    assert len(scripts) == 1
    assert EVIL not in page
    assert not names & {"link", "img", "iframe", "object"}
    assert not any({"src", "href"} & set(attributes) for _, attributes in tags.seen)
    assert not re.search(r"url\(|@import", page)
    assert "&lt;script&gt;alert(" in page
    assert [attributes["aria-label"] for tag, attributes in tags.seen if tag == "svg"] == [
        "Lag over time",
        "Rebalances over time",
        "Who held which partition of healthy",
        "Who held which partition of lagging",
    ]
    marks = [attributes["class"] for tag, attributes in tags.seen if tag == "rect"]
    assert marks.count("mark storm") == 6
    assert marks.count("mark") == 3


def test_what_is_left_out_of_a_picture_is_said(tmp_path: Path) -> None:
    """A picture that shows only some groups or partitions says how many, of how many."""
    found = find(Output(scene(tmp_path)))
    told = "One mark a generation; red: five or more within five minutes. Point at one to read it."
    assert "3 of 4 groups, the worst first." in render(found)  # the fourth group has no commits
    assert f"{told}</p>" in render(found)
    assert "one colour a member.</p>" in render(found)
    busy, quiet = found.rebalances[0], found.rebalances[-1]
    many = replace(
        found,
        groups=found.groups * 300,
        rebalances=[
            *({**quiet, "group": f"quiet-{index}"} for index in range(1200)),
            *({**busy, "group": "busy"} for _ in range(3)),
        ],
        holdings=[Holding("wide", [(("t", index), "m", BEGIN_MS, AT_MS) for index in range(25)])],
    )
    page = render(many)
    assert f"3 of {number(1200)} groups, the worst first." in page
    assert f"{told} The 20 busiest of {number(1201)} groups.</p>" in page
    assert ">busy<" in page
    assert page.count(">quiet-") == 19
    assert "one colour a member. The first 24 partitions of each.</p>" in page


def test_an_alert_is_an_exit_code_with_reasons(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With --alert the exit code is 3 and each reason has a line; else, or if all is well, 0."""
    bad, well = scene(tmp_path / "bad"), scene(tmp_path / "well", well=True)
    assert report("--out", str(bad), "--alert") == command.ALERT == 3
    said = capsys.readouterr()
    assert said.err.splitlines() == [
        "alert: group stopped is ERR: orders-0: STOP, the group is empty while 4000 records to"
        " read wait for 2400 s",
        "alert: group stopped, orders-0: at_risk, 4000 records unread",
    ]
    assert said.out.splitlines()[0] == (
        "2026-03-01 14:00:00 UTC: 4 groups, 1 in error, 1 with a warning, 2 well"
    )
    assert (bad / "report.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    assert report("--out", str(bad), "--html", str(tmp_path / "page.html")) == 0
    assert (tmp_path / "page.html").exists()
    assert report("--out", str(well), "--alert") == 0


def test_the_chart_ends_in_the_lag_of_the_verdict(tmp_path: Path) -> None:
    """The chart ends at the lag of `status`, as bronze lacks records of open transactions."""
    out = scene(tmp_path)
    shutil.rmtree(out / "tables" / schema.STATUS.name)
    write(out, "tables", schema.STATUS, [group_row("healthy", "OK", "held back", 7, 1)])
    (line,) = find(Output(out)).lines
    assert line.lags[-1] == 7
    assert "7 now" in render(find(Output(out)))


def test_the_chart_of_a_group_behind_an_open_transaction_rises(tmp_path: Path) -> None:
    """Records of an open transaction appear from its begin on, not all at once at the end.

    Records and commits of a deleted topic of the same name do not appear.
    """
    out = scene(tmp_path)
    for folder, table in (("tables", schema.STATUS), ("bronze", schema.TOPIC_RECORDS),
                          ("bronze", schema.OFFSETS_LOG)):  # fmt: skip
        shutil.rmtree(out / folder / table.name)
    record = {"topic": "orders", "partition": 0, "topic_id": "NEW"}
    end = {**record, "log_start": 0, "log_end": 1100, "last_stable_offset": 100,
           "held_by": "p", "held_since_ms": ago(20), "sampled_at_ms": AT_MS}  # fmt: skip
    write(out, "bronze", schema.PARTITION_ENDS, [end])
    old = {**record, "topic_id": "OLD", "offset": 90_000, "timestamp_ms": ago(70)}
    records = [{**record, "offset": offset, "timestamp_ms": ago(50)} for offset in range(100)]
    without_id = {**old, "topic_id": None, "offset": 80_000}
    write(out, "bronze", schema.TOPIC_RECORDS, [*records, old, without_id])
    log = [commit("healthy", ago(60), 1, "orders-0", 80_000, topic_id="OLD"),
           commit("healthy", ago(40), 2, "orders-0", 100, topic_id="NEW")]  # fmt: skip
    write(out, "bronze", schema.OFFSETS_LOG, log)
    write(out, "tables", schema.STATUS, [group_row("healthy", "OK", "held back", 1000, 1)])
    (line,) = find(Output(out)).lines
    lags = dict(zip(line.times_ms, line.lags, strict=True))
    assert max(lag for at_ms, lag in lags.items() if at_ms < ago(20)) == 0
    halfway = min(lags, key=lambda at_ms: abs(at_ms - ago(10)))
    assert abs(lags[halfway] - 500) < 50
    assert line.lags == sorted(line.lags)
    assert line.lags[-1] == 1000


def test_the_chart_of_sampled_times_rises_evenly(tmp_path: Path) -> None:
    """Between two records whose times were sampled, the log end rises evenly; pauses are flat."""
    out = scene(tmp_path)
    for table in (schema.TOPIC_RECORDS, schema.OFFSETS_LOG):
        shutil.rmtree(out / "bronze" / table.name)
    place = {"topic": "orders", "partition": 0, "topic_id": "ID"}
    write(out, "bronze", schema.PARTITION_ENDS, [{**place, "log_start": 0, "log_end": 1100}])
    points = ((0, 60, 60), (100, 40, 20), (1100, 0, None))
    sampled = [
        {**place, "offset": offset, "from_ms": ago(begin),
         "timestamp_ms": None if until is None else ago(until)} for offset, begin, until in points
    ]  # fmt: skip
    write(out, "bronze", schema.OFFSET_TIMES, sampled)
    write(out, "bronze", schema.OFFSETS_LOG, [commit("healthy", ago(60), 1, "orders-0", 0)])
    (line,) = find(Output(out)).lines

    def lag(minutes: int) -> int:
        times = line.times_ms
        return line.lags[min(range(len(times)), key=lambda at: abs(times[at] - ago(minutes)))]

    assert [abs(lag(50) - 50) < 10, lag(30), abs(lag(10) - 600) < 60] == [True, 100, True]
    assert line.lags[:-1] == sorted(line.lags[:-1])  # the last point is the lag of `status`


def test_every_group_is_in_a_table_with_its_lag_in_time(tmp_path: Path) -> None:
    """Each of a thousand healthy groups has a row with lag, age, rate, members and partitions."""
    out = scene(tmp_path)
    names = [f"healthy-{index:04}" for index in range(1000)]
    place = {"topic": "orders", "at_ms": AT_MS}
    lags = [
        {**place, "group": name, "partition": number, "lag": 3 * number,
         "oldest_unread_age_ms": 1500 * number} for name in names for number in range(2)
    ]  # fmt: skip
    rates = [
        {"group": "healthy-0007", "topic": "orders", "partition": one, "consumed_per_second": 2.25}
        for one in range(2)
    ]
    for table, rows in (
        (schema.STATUS, [group_row(name, "OK", "fine", 3, 1) for name in names]),
        (schema.LAG, lags),
    ):
        shutil.rmtree(out / "tables" / table.name)
        write(out, "tables", table, rows)
    write(out, "tables", schema.RATES, rates)
    page = render(find(Output(out)))
    assert page.count("<tr data-group=") == 1000
    row = page[page.index('<tr data-group="healthy-0007">') :].split("</tr>")[0]
    assert re.findall(r'class="n" data-name="([^"]*)">([^<]*)<', row) == [
        ("lag", "3"),
        ("lag in time", "1.5 s"),
        ("records/s", "4.5"),
        ("members", "1"),
    ]
    assert "<li>orders-1: 3</li><li>orders-0: 0</li>" in row
    assert f"{number(1000)} groups, {number(2000)} partitions; verdicts look back 1 h" in page


def test_the_head_says_what_the_run_covered(tmp_path: Path) -> None:
    """The head shows cluster, input, window and missing data, with names escaped."""
    out = scene(tmp_path)
    head = head_of(out)
    assert "Cluster <b>AbC</b>, from kafka:9092, as of 01 March 2026, 14:00:00 UTC." in head
    assert "verdicts look back 1 h, to 01 Mar 13:00." in head
    assert "The oldest record of the offsets log is of 01 Mar 2026 05:40." in head
    assert "Log ends were taken 01 Mar 2026 13:59:00. Nothing was refused or damaged." in head
    shutil.rmtree(out / "tables" / schema.COVERAGE.name)
    # Tables of an older release do not include a coverage table.
    assert "14:00:00 UTC. 4 groups" in head_of(out)
    row = {"at_ms": AT_MS, "notes": ["t-0: <torn>"], "groups": "app-<.>", "input": "/mnt/<log>"}
    write(out, "tables", schema.COVERAGE, [row])
    head = head_of(out)
    assert "A cluster whose id is not known, from /mnt/&lt;log&gt;, as of" in head
    assert "with names like <code>app-&lt;.&gt;</code>" in head
    assert "<li>t-0: &lt;torn&gt;</li>" in head
    assert "Nothing was refused" not in head


def test_the_head_says_of_how_many_partitions_the_lag_is_known(tmp_path: Path) -> None:
    """The head says for how many partitions the lag is unknown."""
    out = scene(tmp_path)
    place = {"topic": "orders", "at_ms": AT_MS, "group": "healthy"}
    for lags, said in (
        ([1, 2], "The lag of every partition is known."),
        ([1, None], "The lag of 1 of 2 partitions is not known."),
    ):
        shutil.rmtree(out / "tables" / schema.LAG.name)
        rows = [{**place, "partition": number, "lag": lag} for number, lag in enumerate(lags)]
        write(out, "tables", schema.LAG, rows)
        assert said in head_of(out)


def head_of(out: Path) -> str:
    """Return the page up to its tiles."""
    return render(find(Output(out))).split('<div class="tiles">')[0]


def test_a_calm_cluster_has_a_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without rebalances, or without bronze commits, there are still a page, alerts and metrics."""
    out = scene(tmp_path / "calm", calm=True)
    metrics = tmp_path / "lag.prom"
    assert report("--out", str(out), "--alert", "--prometheus", str(metrics)) == command.ALERT
    assert "group stopped is ERR" in capsys.readouterr().err
    assert "stopped" in (out / "report.html").read_text(encoding="utf-8")
    assert 'group="stopped"' in metrics.read_text(encoding="utf-8")
    shutil.rmtree(out / "bronze" / "offsets_log")
    assert report("--out", str(out)) == 0


def test_a_cluster_without_a_group_has_a_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run without groups succeeds, and page and metrics show it."""
    write(tmp_path, "tables", schema.COVERAGE, [{"at_ms": AT_MS, "notes": []}])
    metrics = tmp_path / "lag.prom"
    assert report("--out", str(tmp_path), "--alert", "--prometheus", str(metrics)) == 0
    assert "0 groups, 0 in error" in capsys.readouterr().out
    assert "No group has a verdict." in (tmp_path / "report.html").read_text(encoding="utf-8")
    assert (
        'coordinator_pipeline_instant_seconds{cluster_name=""} 1.7723736e+09' in metrics.read_text()
    )


def test_groups_that_cannot_be_judged_yet_are_counted(tmp_path: Path) -> None:
    """If no group needs attention, the page says how many cannot be judged yet."""
    out = scene(tmp_path)
    shutil.rmtree(out / "tables" / schema.STATUS.name)
    rows = [group_row(f"g{number}", "OK", f"t-0: {EARLY}: 3 wait", 3, None) for number in range(2)]
    write(out, "tables", schema.STATUS, [*rows, group_row("well", "OK", "fine", 0, 1)])
    said = "No group is in error or has a warning. For 2 it is too early to judge"
    assert said in render(find(Output(out)))


def test_what_is_not_there_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder without tables is reported as an error."""
    assert report("--out", str(tmp_path)) == 1
    assert f"{tmp_path} holds no tables" in capsys.readouterr().err
    (tmp_path / "tables").mkdir()
    with pytest.raises(NoReportError, match="table lag has no rows"):
        find(Output(tmp_path))


def test_a_file_that_cannot_be_written_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A page or metrics file that cannot be written is reported by name in one line."""
    out = scene(tmp_path / "out")
    page = tmp_path / "nowhere" / "page.html"
    assert report("--out", str(out), "--html", str(page)) == 1
    said = capsys.readouterr().err
    assert said == f"coordinator-server pipeline report: {page}: No such file or directory\n"
    metrics = tmp_path / "nowhere" / "lag.prom"
    assert report("--out", str(out), "--prometheus", str(metrics)) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert str(metrics) in line


def test_numbers_and_times_are_easy_to_read() -> None:
    """Digits are grouped by three, durations have one unit, and an axis has few round times."""
    assert number(55_030) == "55\u202f030"
    assert [duration(one) for one in (1, 1500, 90_000, 5_400_000, 864_000_000)] == [
        "1 ms",
        "1.5 s",
        "1.5 min",
        "1.5 h",
        "10 d",
    ]
    ticks = TimeAxis(BEGIN_MS, AT_MS).ticks(10)
    assert re.findall(r">([0-9:]+)<", ticks) == [
        "12:00", "12:15", "12:30", "12:45", "13:00", "13:15", "13:30", "13:45", "14:00"
    ]  # fmt: skip


def test_tables_of_an_older_release_are_not_current(tmp_path: Path) -> None:
    """A folder `tables` that is no link counts only if no run has completed a version."""
    out = scene(tmp_path)
    assert Output(out).at_ms == AT_MS
    write(out, "versions/000000000001", schema.COVERAGE, [{"at_ms": AT_MS + 1}])
    assert Output(out).at_ms == AT_MS
    (out / "versions" / "000000000001" / "_complete").touch()
    assert Output(out).at_ms == AT_MS + 1
