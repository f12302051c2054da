"""CPU cost of quotas per heartbeat and per Produce request.

    python -m benchmarks.quotas [--seconds 3]

The quotas are too large to throttle any client. A quota of bytes does not apply to heartbeats; a
request quota counts every request.
"""

from __future__ import annotations

import argparse
import asyncio
import sys

import uvloop

from benchmarks import load
from benchmarks.load import ClosedLoop, Server
from protocol.apis.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlteredQuotaEntity,
    AlterQuotaEntry,
    QuotaOperation,
)

CONNECTIONS = 10
ROUNDS = 3
QUOTAS = {"no quota": None, "of bytes": "producer_byte_rate", "of requests": "request_percentage"}
_MUCH = 1e12


def set_quota(broker: Server, key: str | None) -> None:
    """Set one quota of the default user, or none."""
    operations = [
        QuotaOperation(key=one, value=_MUCH, remove=one != key)
        for one in QUOTAS.values()
        if one is not None
    ]
    entity = [AlteredQuotaEntity(entity_type="user", entity_name=None)]
    request = AlterClientQuotasRequest(entries=[AlterQuotaEntry(entity=entity, ops=operations)])
    with load.client_of(broker) as client:
        (result,) = client.ask(request, 1).entries
    assert not result.error_code, result.error_message


async def measure(broker: Server, frame: bytes, seconds: float) -> dict[str, float]:
    """Return the minimum CPU per request in microseconds, by quota; the quotas alternate."""
    answer = await asyncio.to_thread(load.asked, broker, frame)
    made = [ClosedLoop([frame], answer, varies=True) for _ in range(CONNECTIONS)]
    loops = await load.connected(broker, made)
    least = dict.fromkeys(QUOTAS, float("inf"))
    for _ in range(ROUNDS):
        for name, key in QUOTAS.items():
            await asyncio.to_thread(set_quota, broker, key)
            await load.window(broker, loops, 0.3)
            count, cpu_seconds = await load.window(broker, loops, seconds)
            least[name] = min(least[name], cpu_seconds / count * 1e6)
    for one in loops:
        one.close()
    return least


async def _print_table(broker: Server, seconds: float) -> None:
    with load.client_of(broker) as client:
        load.ensure_topic(client)
        member = load.only_member(client, "quotas")
    print("| CPU us per | " + " | ".join(QUOTAS) + " |")
    print("|---|" + "---|" * len(QUOTAS))
    for name, frame in (("heartbeat", load.heartbeat(member)), ("produce", load.produce(0))):
        costs = await measure(broker, frame, seconds)
        print(f"| {name} | " + " | ".join(f"{cost:.1f}" for cost in costs.values()) + " |")


def main(arguments: list[str]) -> int:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quotas")
    parser.add_argument(
        "--seconds", type=float, default=3.0, help="duration of each measurement in seconds"
    )
    options = parser.parse_args(arguments)
    with load.served() as broker:
        uvloop.run(_print_table(broker, options.seconds))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
