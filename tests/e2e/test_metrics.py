"""GET /metrics of the real process: exact counts, brokers, restarts, HTTP."""

from __future__ import annotations

import gzip
import http.client
import sys
from contextlib import closing
from pathlib import Path

import confluent_kafka
import pytest

from benchmarks import load
from tests.support import Broker, wait_for
from tests.unit.metrics.scene import OPENMETRICS, Samples, parsed, total, value


def scraped(
    broker: Broker, method: str = "GET", **headers: str
) -> tuple[http.client.HTTPResponse, bytes]:
    """Return the response to a scrape, and its body."""
    with closing(http.client.HTTPConnection(*broker.control.address, timeout=30)) as connection:
        names = {name.replace("_", "-"): text for name, text in headers.items()}
        connection.request(method, "/metrics", headers=names)
        response = connection.getresponse()
        return response, response.read()


def samples_of(broker: Broker) -> Samples:
    """Return the samples of a scrape."""
    response, body = scraped(broker)
    assert response.status == 200
    return parsed(body.decode())


def test_known_traffic_is_counted_exactly() -> None:
    """Ten heartbeats, four commits and their group are in the metrics, beside process metrics."""
    with Broker() as broker:
        with load.client_of(broker) as client:
            load.ensure_topic(client)
            member = load.only_member(client, "group")
        for frame, count in ((load.heartbeat(member), 10), (load.commit(member, 2, 0), 2)):
            for _ in range(count):
                load.asked(broker, frame)
        load.asked(broker, load.produce(0))
        samples = samples_of(broker)
        assert total(samples, "coordinator_requests_total", api="Heartbeat") == 10
        assert value(samples, "coordinator_offset_commits_total", broker=1) == 4
        stable = {"broker": 1, "type": "classic", "state": "Stable"}
        assert value(samples, "coordinator_groups", **stable) == 1
        place = {"broker": 1, "group": "group", "topic": load.TOPIC, "partition": 0}
        assert value(samples, "coordinator_group_lag_records", **place) == load.RECORDS
        age_s = value(samples, "coordinator_group_lag_seconds", **place)
        assert age_s is not None
        assert 0 <= age_s < 60
        accepted = total(samples, "coordinator_connections_accepted_total")
        assert accepted >= 14
        if sys.platform == "linux":
            memory = value(samples, "process_resident_memory_bytes")
            assert memory is not None
            assert memory > 10e6


def test_head_encoding_and_format() -> None:
    """HEAD has no body, Accept-Encoding compresses, Accept selects OpenMetrics, POST is refused."""
    with Broker() as broker:
        head, body = scraped(broker, "HEAD")
        assert (head.status, body) == (200, b"")
        assert int(head.headers["Content-Length"]) > 1000
        response, body = scraped(broker, Accept=OPENMETRICS, Accept_Encoding="gzip")
        assert response.headers["Content-Encoding"] == "gzip"
        assert response.headers["Content-Type"].startswith("application/openmetrics-text")
        assert parsed(gzip.decompress(body).decode(), openmetrics=True)
        assert scraped(broker, "POST")[0].status == 405


def test_the_loop_is_measured_after_the_first_scrape() -> None:
    """The histogram of the event loop is empty in the first scrape and fills afterwards."""
    with Broker() as broker:
        name = "coordinator_event_loop_lag_seconds_count"
        assert value(samples_of(broker), name) == 0
        wait_for(lambda: (value(samples_of(broker), name) or 0) >= 2, "the timer has fired twice")


def test_brokers_have_their_own_series_and_keep_them() -> None:
    """Each broker counts its own requests, and counts on after it was stopped and started."""
    with Broker(broker_count=2) as broker:
        addresses = broker.bootstrap_servers.split(",")
        for number, address in enumerate(addresses):
            client = confluent_kafka.Producer({"bootstrap.servers": address})
            for _ in range(number + 1):
                client.list_topics(timeout=10)
        before = samples_of(broker)
        for node_id in (1, 2):
            assert total(before, "coordinator_requests_total", broker=node_id) > 0
        broker.control.call("POST", "/brokers/2/stop")
        stopped = samples_of(broker)
        assert value(stopped, "coordinator_leader_partitions", broker=2) is None
        broker.control.call("POST", "/brokers/2/start")
        after = samples_of(broker)
        count = total(before, "coordinator_requests_total", broker=2)
        assert total(after, "coordinator_requests_total", broker=2) >= count


def test_state_survives_a_restart_and_counts_do_not(tmp_path: Path) -> None:
    """After a restart groups and lag are as before; counters begin at 0."""
    with Broker(data_dir=tmp_path / "data") as broker:
        with load.client_of(broker) as client:
            load.ensure_topic(client)
            member = load.only_member(client, "group")
        load.asked(broker, load.produce(0))
        load.asked(broker, load.commit(member, 1, 5))
        broker.kill()
        broker.start()
        place = {"broker": 1, "group": "group", "topic": load.TOPIC, "partition": 0}

        def lag() -> float | None:
            return value(samples_of(broker), "coordinator_group_lag_records", **place)

        wait_for(lambda: lag() == load.RECORDS - 5, "the group is loaded")
        assert total(samples_of(broker), "coordinator_offset_commits_total") == 0


@pytest.mark.parametrize("path", ["/metrics?name=x", "/metrics/x"])
def test_other_addresses_are_refused(path: str) -> None:
    """GET /metrics refuses query parameters and longer paths."""
    with Broker() as broker, closing(http.client.HTTPConnection(*broker.control.address)) as one:
        one.request("GET", path)
        assert one.getresponse().status in (400, 404)
