"""The scrape: formats, steps, hostile names, and state that is read from the brokers."""

from __future__ import annotations

import asyncio
import gzip
import sys
from time import thread_time

import pytest

from coordinator_server.control import metrics
from coordinator_server.control.request import ControlRequest
from coordinator_server.control.state import ControlOptions, ControlState
from coordinator_server.metrics import lag
from coordinator_server.metrics.families import SAMPLES_PER_CHUNK, text
from coordinator_server.metrics.names import METRICS, PROCESS_METRICS, MetricKind, series_of
from coordinator_server.metrics.scrape import scraper_of
from protocol.batch import Record, build_batch
from protocol.control_record import EndTransaction
from tests.harness.clock import START_MS
from tests.unit.metrics.scene import OPENMETRICS, CountingNodes, Samples, parsed, total, value

HOSTILE = (
    'a "quoted" \\ back\nslash',
    "<script>alert(1)</script>",
    "‮right-to-left​",
    "tab\tnull\0carriage\rreturn",
    "line\u2028separator\x85",
    "}\ncoordinator_groups 1",
    "g" * 249,
)


@pytest.fixture
def nodes() -> CountingNodes:
    """Start and return one broker."""
    return CountingNodes(None, 1)


def produce(nodes: CountingNodes, topic: str, *timestamps_ms: int) -> None:
    """Append a record with each timestamp to partition 0, all in one batch."""
    partition = nodes.cluster.topics.partition(topic, 0)
    assert partition is not None
    records = [Record(number, one, None, b"x") for number, one in enumerate(timestamps_ms)]
    partition.append(build_batch(records).to_bytes(), nodes.clock.now_ms())


def group_lag(samples: Samples, group: str, name: str, topic: str = "t") -> float | None:
    """Return a lag metric of partition 0."""
    labels = {"broker": 1, "group": group, "topic": topic, "partition": 0}
    return value(samples, f"coordinator_group_{name}", **labels)


async def test_every_metric_of_the_table_is_in_a_scrape(nodes: CountingNodes) -> None:
    """A scrape has every metric of the table with its help and type, and no other metric."""
    text = (await nodes.exposition()).body.decode()
    types = dict(line.split(" ")[2:] for line in text.splitlines() if line.startswith("# TYPE "))
    helps = dict(line.split(" ", 3)[2:] for line in text.splitlines() if line.startswith("# HELP "))
    process = PROCESS_METRICS if sys.platform == "linux" else ()
    assert types == {row.name: row.kind.value for row in (*METRICS, *process)}
    assert {name: helps[name] for name in (row.name for row in METRICS)} == {
        row.name: row.help for row in METRICS
    }
    assert len(types) == sum(line.startswith("# TYPE ") for line in text.splitlines())


async def test_labels_are_those_of_the_table(nodes: CountingNodes) -> None:
    """Every series has exactly the labels of the table."""
    produce(nodes, "t", START_MS)
    nodes.commit(1, "group", 0)
    nodes.join(1, "classic")
    nodes.connect()
    samples = await nodes.samples()
    of_series = {series: row for row in METRICS for series in series_of(row)}
    for name, labels in samples:
        if name.startswith("process_"):
            continue
        row = of_series[name]
        bucket = ("le",) if row.kind is MetricKind.HISTOGRAM and name.endswith("_bucket") else ()
        assert sorted(dict(labels)) == sorted((*row.labels, *bucket)), name


async def test_formats_are_negotiated(nodes: CountingNodes) -> None:
    """Accept chooses OpenMetrics or Prometheus text, Accept-Encoding chooses gzip."""
    plain = await nodes.exposition("*/*", "identity")
    assert plain.content_type.startswith("text/plain; version=0.0.4")
    assert "Content-Encoding" not in plain.headers
    open_metrics = await nodes.exposition(OPENMETRICS, "deflate, gzip;q=1.0")
    assert open_metrics.content_type.startswith("application/openmetrics-text; version=1.0.0")
    assert open_metrics.headers["Content-Encoding"] == "gzip"
    text = gzip.decompress(open_metrics.body).decode()
    assert text.endswith("\n# EOF\n")
    assert text.count("# EOF") == 1
    names = {name for name, _ in parsed(text, openmetrics=True)}
    assert names == {name for name, _ in parsed(plain.body.decode())}


@pytest.mark.parametrize("accept", ["", OPENMETRICS])
async def test_hostile_names_are_escaped(nodes: CountingNodes, accept: str) -> None:
    """Any group id and any topic name becomes one label value, which parsers read back."""
    produce(nodes, "t", START_MS)
    for name in HOSTILE:
        nodes.commit(1, name, 0)
    text = (await nodes.exposition(accept)).body.decode()
    samples = parsed(text, openmetrics=bool(accept))
    found = {
        dict(labels).get("group")
        for name, labels in samples
        if name == "coordinator_group_lag_records"
    }
    assert found == {*HOSTILE}
    assert total(samples, "coordinator_groups") == len(HOSTILE)


def test_lone_surrogates_have_a_text() -> None:
    """A label value that UTF-8 cannot encode shows its code points."""
    assert text("lone \ud800 ü") == "lone \\ud800 ü"


async def test_metrics_of_many_series_have_one_header(nodes: CountingNodes) -> None:
    """A metric that is rendered in several chunks has its header lines once, in both formats."""
    count = 2 * SAMPLES_PER_CHUNK + 1
    for number in range(count):
        nodes.commit(1, f"group-{number}", 0)
    for accept in ("", OPENMETRICS):
        text = (await nodes.exposition(accept)).body.decode()
        assert text.count("# TYPE coordinator_group_committed_offset ") == 1
        samples = parsed(text, openmetrics=bool(accept))
        found = [1 for name, _ in samples if name == "coordinator_group_committed_offset"]
        assert len(found) == count


async def test_lag_in_records_and_seconds(nodes: CountingNodes) -> None:
    """Lag is high watermark minus committed offset; lag in seconds is the oldest record's age."""
    produce(nodes, "t", START_MS - 9000, START_MS - 5000, START_MS - 1000)
    for group, offset in (("start", 0), ("middle", 1), ("end", 3), ("ahead", 9)):
        nodes.commit(1, group, offset)
    samples = await nodes.samples()
    assert group_lag(samples, "start", "lag_records") == 3
    assert group_lag(samples, "start", "lag_seconds") == 9
    assert group_lag(samples, "middle", "lag_records") == 2
    assert group_lag(samples, "middle", "lag_seconds") == 5
    for group in ("end", "ahead"):
        assert group_lag(samples, group, "lag_records") == 0
        assert group_lag(samples, group, "lag_seconds") == 0
    assert group_lag(samples, "ahead", "committed_offset") == 9
    assert group_lag(samples, "start", "lost_records") is None
    nodes.advance(2000)
    assert group_lag(await nodes.samples(), "middle", "lag_seconds") == 7
    nodes.commit(1, "middle", 2)
    assert group_lag(await nodes.samples(), "middle", "lag_seconds") == 3


async def test_lost_records_have_no_age(nodes: CountingNodes) -> None:
    """If the oldest unread records were deleted, they count as lag, and the age is unknown."""
    produce(nodes, "t", START_MS, START_MS, START_MS)
    nodes.commit(1, "group", 0)
    partition = nodes.cluster.topics.partition("t", 0)
    assert partition is not None
    partition.delete_records(2)
    samples = await nodes.samples()
    assert group_lag(samples, "group", "lag_records") == 3
    assert group_lag(samples, "group", "lost_records") == 2
    assert group_lag(samples, "group", "lag_seconds") is None


async def test_transaction_markers_have_no_age(nodes: CountingNodes) -> None:
    """A marker at the end of the log is lag in records, as in other exporters, but has no age."""
    produce(nodes, "t", START_MS)
    partition = nodes.cluster.topics.partition("t", 0)
    assert partition is not None
    end = EndTransaction(
        producer_id=1, producer_epoch=0, commits=True, coordinator_epoch=0, transaction_version=0
    )
    partition.end_transaction(end, START_MS)
    nodes.commit(1, "group", 1)
    nodes.advance(5000)
    samples = await nodes.samples()
    assert group_lag(samples, "group", "lag_records") == 1
    assert group_lag(samples, "group", "lag_seconds") == 0


async def test_deleted_topics_have_no_lag(nodes: CountingNodes) -> None:
    """Offsets of a partition that does not exist have no series."""
    nodes.cluster.topics.create("other", 1, {})
    group = nodes.cluster.brokers[1].groups
    nodes.commit(1, "group", 0)
    task = group.tasks["group"].group
    task.offsets.by_topic["gone"] = {0: task.offsets.by_topic["t"][0]}
    samples = await nodes.samples()
    assert group_lag(samples, "group", "lag_records") == 0
    assert group_lag(samples, "group", "lag_records", "gone") is None


async def test_too_many_partitions_are_omitted_and_counted(
    nodes: CountingNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beyond the limit, partitions of groups have no lag metrics; their number is a metric."""
    monkeypatch.setattr(lag, "MAX_PARTITIONS", 3)
    for number in range(5):
        nodes.commit(1, f"group-{number}", 0)
    samples = await nodes.samples()
    assert sum(name == "coordinator_group_lag_records" for name, _ in samples) == 3
    assert value(samples, "coordinator_group_partitions_omitted") == 2
    assert total(samples, "coordinator_groups") == 5


async def test_each_broker_has_its_own_series() -> None:
    """Requests, groups and leaders have the label of their broker."""
    nodes = CountingNodes(None, 2)
    homes = {}
    for number in range(8):
        group = f"group-{number}"
        homes[group] = nodes.home(group).leader_id
        nodes.commit(homes[group], group, 0)
    samples = await nodes.samples()
    assert {*homes.values()} == {1, 2}
    for node_id in (1, 2):
        mine = sum(home == node_id for home in homes.values())
        assert total(samples, "coordinator_groups", broker=node_id) == mine
        assert total(samples, "coordinator_broker_info", broker=node_id) == 1
        led = total(samples, "coordinator_leader_partitions", broker=node_id)
        assert led == sum(
            partition.leader_id == node_id
            for topic in nodes.cluster.topics.all_topics()
            for partition in topic.partitions
        )


async def test_logs_have_sizes_and_offsets(nodes: CountingNodes) -> None:
    """An open log has its size, its offsets and its number of segments."""
    produce(nodes, "t", START_MS, START_MS)
    samples = await nodes.samples()
    labels = {"broker": 1, "topic": "t", "partition": 0}
    assert value(samples, "coordinator_log_high_watermark", **labels) == 2
    assert value(samples, "coordinator_log_start_offset", **labels) == 0
    assert value(samples, "coordinator_log_segments", **labels) == 1
    size = nodes.cluster.topics.log("t", 0).size_bytes
    assert value(samples, "coordinator_log_size_bytes", **labels) == size > 0
    before = value(samples, "coordinator_log_flush_seconds_count")
    nodes.cluster.topics.log("t", 0).flush()
    after = value(await nodes.samples(), "coordinator_log_flush_seconds_count")
    assert (before, after) == (0, 1)


async def test_a_cluster_without_counts_has_no_scraper() -> None:
    """A cluster without counts has no metrics."""
    nodes = CountingNodes(None, 1)
    shared = nodes.cluster.shared
    assert shared.counts is not None
    from coordinator_server.metrics.scrape import scraper_of

    nodes.cluster.shared = shared._replace(counts=None)
    assert await scraper_of(nodes.cluster) is None


@pytest.mark.alone
async def test_a_scrape_holds_the_event_loop_in_short_steps() -> None:
    """With 10 000 groups and 2 000 partitions no turn of the event loop takes 100 ms of CPU."""
    nodes = CountingNodes(None, 1, has_real_steps=True)
    cluster = nodes.cluster
    for number in range(20):
        cluster.topics.create(f"topic-{number}", 100, {})
    coordinator = cluster.brokers[1].groups
    produce(nodes, "t", START_MS)
    nodes.commit(1, "model", 0)
    model = coordinator.tasks["model"]
    for number in range(10_000):
        task = coordinator._create(f"group-{number}", model.partition)
        task.group.offsets.by_topic.update(model.group.offsets.by_topic)
    for topic in cluster.topics.all_topics():
        for partition in topic.partitions:
            assert partition.log
    await nodes.exposition()
    longest_s = 0.0
    is_done = False

    async def watch() -> None:
        nonlocal longest_s
        while not is_done:
            began_s = thread_time()
            await asyncio.sleep(0)
            longest_s = max(longest_s, thread_time() - began_s)

    watching = asyncio.create_task(watch())
    exposition = await nodes.exposition()
    is_done = True
    await watching
    assert longest_s < 0.1
    assert len(exposition.body) > 1_000_000


async def test_a_step_that_raises_ends_the_scrape(
    nodes: CountingNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The exception of a step is raised by the scrape, and the next scrape works."""

    def fail(_: object) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patched:
        patched.setattr(nodes.cluster.topics, "open_logs", lambda: fail(None))
        with pytest.raises(ZeroDivisionError):
            await asyncio.wait_for(nodes.samples(), 10)
    assert await nodes.samples()


async def test_the_measurement_of_the_event_loop_ends_with_the_scraper(
    nodes: CountingNodes,
) -> None:
    """The control server stops the timer; a later scrape starts another one."""
    state = ControlState(nodes.cluster, ControlOptions(), None)
    await metrics.metrics(ControlRequest(nodes.cluster, {}, {}, b"", state=state))
    first = state.scraper
    assert first is not None
    assert first._timer is not None
    assert not first._timer.cancelled()
    state.stop()
    assert first._timer.cancelled()
    second = await scraper_of(nodes.cluster)
    assert second is not None
    assert second is not first
    assert second._timer is not None
    assert not second._timer.cancelled()
