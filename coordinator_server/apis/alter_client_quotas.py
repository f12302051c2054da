"""AlterClientQuotas: set and remove quotas of users, client ids and IP addresses."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from coordinator_server.config.hosts import parse_address
from coordinator_server.security.quotas.client_quotas import address_of
from coordinator_server.security.quotas.entities import (
    IP,
    MOST_CHANGES,
    Change,
    TooManyChangesError,
)
from coordinator_server.security.security import log_unwritten
from protocol.apis.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlteredQuotaEntity,
    AlteredQuotaEntry,
)
from protocol.errors import ErrorCode
from storage.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call
    from coordinator_server.steps import Steps


_MOST_OF_ONE = 1000
"""Maximum number of entity types and quota keys read per entry. Fewer of each are known, so a
longer entry is refused anyway."""


def handle(broker: Broker, call: Call, request: AlterClientQuotasRequest) -> Steps:
    """Respond with one result per distinct entity, after resolving host names."""
    addresses: dict[str, str] = {}
    unknown: list[str] = []
    for entry in request.entries:
        for part in entry.entity[:_MOST_OF_ONE]:
            name = part.entity_name
            if part.entity_type == IP and name:
                address = parse_address(name)
                if address is not None:
                    addresses[name] = str(address)
                else:
                    unknown.append(name)
        yield
    if not unknown:
        yield from _alter(broker, call, request, addresses)
        return

    def resolved(done: asyncio.Future[dict[str, str]]) -> None:
        addresses.update(done.result())
        call.run(_alter(broker, call, request, addresses))

    # Name resolution may block, so it runs in a thread.
    loop = asyncio.get_running_loop()
    loop.run_in_executor(None, _resolved, unknown[:MOST_CHANGES]).add_done_callback(resolved)


def _alter(
    broker: Broker, call: Call, request: AlterClientQuotasRequest, addresses: Mapping[str, str]
) -> Steps:
    changes = (
        Change(
            {part.entity_type: part.entity_name for part in entry.entity[:_MOST_OF_ONE]},
            [(op.key, None if op.remove else op.value) for op in entry.ops[:_MOST_OF_ONE]],
        )
        for entry in request.entries
    )
    entries = []
    try:
        results = yield from broker.security.quotas.alter(
            changes, addresses, validate_only=request.validate_only
        )
    except (StorageError, TooManyChangesError) as failure:
        error = ErrorCode.POLICY_VIOLATION
        if isinstance(failure, StorageError):
            log_unwritten(failure)
            error = failure.code
        for entry in request.entries:
            entries.append(
                AlteredQuotaEntry(
                    error_code=error, error_message=error.message, entity=entry.entity
                )
            )
            yield
    else:
        for entity, (code, message) in results.items():
            names = [
                AlteredQuotaEntity(entity_type=kind, entity_name=name) for kind, name in entity
            ]
            entries.append(AlteredQuotaEntry(error_code=code, error_message=message, entity=names))
            yield
    call.reply(AlterClientQuotasResponse(entries=entries))


def _resolved(hosts: Iterable[str]) -> dict[str, str]:
    """Return the addresses of the hosts that can be resolved."""
    addresses = {host: address_of(host) for host in hosts}
    return {host: address for host, address in addresses.items() if address is not None}
