"""Control requests about fault rules, see `faults.rule`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coordinator_server.control.errors import ControlError, natural_number

if TYPE_CHECKING:
    from coordinator_server.control.request import ControlRequest
    from coordinator_server.faults.faults import Faults
    from coordinator_server.faults.rule import FaultRule


async def faults(request: ControlRequest) -> dict[str, Any]:
    """GET /faults: list the rules."""
    return _shown(request.cluster.shared.faults)


async def add(request: ControlRequest) -> dict[str, Any]:
    """POST /faults: add a rule and return it. Raises ControlError."""
    from coordinator_server.faults.rule import FaultError

    body = await request.shaped()
    try:
        faults = request.cluster.shared.faults
        return _active(faults, faults.add(body))
    except FaultError as error:
        raise ControlError(400, str(error)) from error


async def remove(request: ControlRequest) -> dict[str, Any]:
    """DELETE /faults/ID: remove a rule and return it. Raises ControlError."""
    text = request.parameters["ID"]
    number = natural_number(text)
    if number is None:
        raise ControlError(400, f"{text[:100]} is not the number of a fault rule")
    faults = request.cluster.shared.faults
    rule = faults.remove(number)
    if rule is None:
        raise ControlError(404, f"there is no fault rule {number}")
    return _active(faults, rule)


async def clear(request: ControlRequest) -> dict[str, Any]:
    """DELETE /faults: remove all rules and return them."""
    faults = request.cluster.shared.faults
    shown = _shown(faults)
    faults.clear()
    return shown


def _shown(faults: Faults) -> dict[str, Any]:
    return {"faults": [_active(faults, rule) for rule in faults]}


def _active(faults: Faults, rule: FaultRule) -> dict[str, Any]:
    return {
        "id": rule.number,
        "rule": rule.document,
        "injected": rule.taken,
        "is_over": rule.has_ended(faults.clock.now_ms()),
    }
