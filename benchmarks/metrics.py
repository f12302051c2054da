"""CPU cost of metrics per heartbeat and per commit, and how long a scrape holds the event loop.

    python -m benchmarks.metrics [--seconds 1] [--rounds 9] [--groups 10000]

Four brokers run at the same time and are measured in turn: without a control server, with a control
server that counts nothing, with metrics, and with metrics and a client that follows `GET /events`,
as an open page does. Brokers with metrics are scraped before every window. The last columns compare
each broker that has a control server to the first broker. The last line shows how long a scrape of
a broker with many groups and 2 000 partitions delays heartbeats of another connection.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import socket
import sys
import time
import urllib.error
import urllib.request
from contextlib import ExitStack
from statistics import median

import uvloop

from benchmarks import load
from benchmarks.load import ClosedLoop, Member
from benchmarks.probe import Probe, percentile
from tests.support import Serve, Wire

CONNECTIONS = 10
TOPICS, PARTITIONS = 20, 100
UNCOUNTED = """
import coordinator_server.counting.counts as counts
from coordinator_server.__main__ import run
counts.Counts = lambda: None
run()
"""
HTTP = ("--http", "127.0.0.1:0", "--log-level", "info")


def control_url(broker: Serve) -> str | None:
    """Return the URL of the control server; None without it."""
    listening = re.search(r"control\.listening\s+address=(\S+)", broker.log)
    return None if listening is None else f"http://{listening[1]}"


def scrape(broker: Serve) -> int:
    """Scrape a broker and return the size of the response; 0 without metrics."""
    url = control_url(broker)
    if url is None:
        return 0
    try:
        with urllib.request.urlopen(f"{url}/metrics", timeout=60) as response:
            return len(response.read())
    except urllib.error.HTTPError:
        return 0


async def measure(
    brokers: dict[str, Serve], frames: dict[str, bytes], seconds: float, rounds: int
) -> dict[str, list[float]]:
    """Return the CPU per request in microseconds of each round, by broker."""
    loops = {}
    for name, broker in brokers.items():
        answer = await asyncio.to_thread(load.asked, broker, frames[name])
        made = [ClosedLoop([frames[name]], answer) for _ in range(CONNECTIONS)]
        loops[name] = await load.connected(broker, made)
    costs: dict[str, list[float]] = {name: [] for name in brokers}
    for _ in range(rounds):
        for name, broker in brokers.items():
            await asyncio.to_thread(scrape, broker)
            await load.window(broker, loops[name], 0.3)
            count, cpu_seconds = await load.window(broker, loops[name], seconds)
            costs[name].append(cpu_seconds / count * 1e6)
    for one in loops.values():
        for connection in one:
            connection.close()
    return costs


async def _print_costs(brokers: dict[str, Serve], seconds: float, rounds: int) -> None:
    members: dict[str, Member] = {}
    for name, broker in brokers.items():
        with load.client_of(broker) as client:
            load.ensure_topic(client)
            members[name] = load.only_member(client, "group")
    print(f"| CPU us per: median (minimum) | {' | '.join(brokers)} | medians | minimums |")
    print("|---|" + "---|" * (len(brokers) + 2))
    for title, frame in (
        ("heartbeat", load.heartbeat),
        ("commit of 1", lambda member: load.commit(member, 1, 1000)),
        ("commit of 100", lambda member: load.commit(member, 100, 1000)),
    ):
        frames = {name: frame(member) for name, member in members.items()}
        costs = await measure(brokers, frames, seconds, rounds)
        shown = " | ".join(f"{median(one):.2f} ({min(one):.2f})" for one in costs.values())
        off, *others = costs.values()
        more = " | ".join(
            ", ".join(f"{value(one) / value(off) - 1:+.1%}" for one in others)
            for value in (median, min)
        )
        print(f"| {title} | {shown} | {more} |", flush=True)


def _fill(broker: Serve, groups: int) -> Member:
    """Create topics, and groups with a member and a commit; return a member."""
    with load.client_of(broker) as client:
        for number in range(TOPICS):
            load.ensure_topic(client, f"topic-{number}", PARTITIONS)
        load.ensure_topic(client)
        with Wire(socket.create_connection(broker.address)) as wire:
            wire.ask(load.produce(0))
            for number in range(groups):
                member = load.only_member(client, f"group-{number}")
                wire.ask(load.commit(member, 2, number % load.RECORDS))
    return member


def _print_scrape(broker: Serve, groups: int) -> None:
    member = _fill(broker, groups)
    scrape(broker)  # imports prometheus_client
    with Probe(broker, load.heartbeat(member)) as probe:
        time.sleep(1)
        probe.waits_ms()
        cpu_seconds, began_s = broker.cpu_seconds(), time.perf_counter()
        size = scrape(broker)
        took_s, cpu_seconds = time.perf_counter() - began_s, broker.cpu_seconds() - cpu_seconds
        waits_ms = probe.waits_ms()
    print(
        f"\n{groups} groups, {TOPICS * PARTITIONS} partitions: {size / 1e6:.1f} MB in {took_s:.2f} "
        f"s, {cpu_seconds:.2f} s of CPU; heartbeats meanwhile waited at most {waits_ms[-1]:.1f} ms,"
        f" p50 {percentile(waits_ms, 0.5):.1f} ms"
    )


def main(arguments: list[str]) -> int:
    """Measure and print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.metrics")
    parser.add_argument("--seconds", type=float, default=1.0, help="how long each is measured")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--groups", type=int, default=10_000, help="groups for the scrape, or 0")
    options = parser.parse_args(arguments)
    with ExitStack() as stack:
        off = stack.enter_context(load.served())
        command = [sys.executable, "-c", UNCOUNTED]
        http = stack.enter_context(load.served(command=command, more_arguments=HTTP))
        on = stack.enter_context(load.served(more_arguments=HTTP))
        followed = stack.enter_context(load.served(more_arguments=HTTP))
        stack.enter_context(urllib.request.urlopen(f"{control_url(followed)}/events"))
        brokers = {"off": off, "no metrics": http, "metrics": on, "events": followed}
        uvloop.run(_print_costs(brokers, options.seconds, options.rounds))
    if options.groups:
        with load.served(more_arguments=HTTP) as broker:
            _print_scrape(broker, options.groups)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
