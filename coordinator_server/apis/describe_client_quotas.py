"""DescribeClientQuotas: list the quotas of the entities that match a filter."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.security.quotas.entities import Component, FilterError
from protocol.apis.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    DescribedQuotaEntity,
    QuotaEntry,
    QuotaValue,
)

if TYPE_CHECKING:
    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call
    from coordinator_server.steps import Steps


def handle(broker: Broker, call: Call, request: DescribeClientQuotasRequest) -> Steps:
    """Respond with the entities, or with the error of the filter."""
    components = (
        Component(component.entity_type, component.match_type, component.match)
        for component in request.components
    )
    response = DescribeClientQuotasResponse(entries=[])
    try:
        described = yield from broker.security.quotas.describe(components, strict=request.strict)
    except FilterError as error:
        response.error_code, response.error_message = error.code, str(error)
        response.entries = None
        call.reply(response)
        return
    entries = response.entries = []
    for entity, quotas in described:
        yield
        entries.append(
            QuotaEntry(
                entity=[
                    DescribedQuotaEntity(entity_type=kind, entity_name=name)
                    for kind, name in entity
                ],
                values=[QuotaValue(key=key, value=value) for key, value in quotas.items()],
            )
        )
    call.reply(response)
