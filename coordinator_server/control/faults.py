"""Control requests about fault rules, see `faults.rule`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coordinator_server.control.errors import ControlError

if TYPE_CHECKING:
    from coordinator_server.control.request import ControlRequest
    from coordinator_server.faults.rule import FaultRule


async def faults(request: ControlRequest) -> dict[str, Any]:
    """GET /faults: list the rules."""
    return _shown(*request.cluster.shared.faults)


async def add(request: ControlRequest) -> dict[str, Any]:
    """POST /faults: add a rule and return it. Raises ControlError."""
    from coordinator_server.faults.rule import FaultError

    body = await request.shaped()
    try:
        return _active(request.cluster.shared.faults.add(body))
    except FaultError as error:
        raise ControlError(400, str(error)) from error


async def remove(request: ControlRequest) -> dict[str, Any]:
    """DELETE /faults/ID: remove a rule and return it. Raises ControlError."""
    number = request.parameters["ID"]
    rule = request.cluster.shared.faults.remove(int(number))
    if rule is None:
        raise ControlError(404, f"there is no fault rule {number}")
    return _active(rule)


async def clear(request: ControlRequest) -> dict[str, Any]:
    """DELETE /faults: remove all rules and return them."""
    rules = list(request.cluster.shared.faults)
    request.cluster.shared.faults.clear()
    return _shown(*rules)


def _shown(*rules: FaultRule) -> dict[str, Any]:
    return {"faults": [_active(rule) for rule in rules]}


def _active(rule: FaultRule) -> dict[str, Any]:
    return {
        "id": rule.number,
        "rule": rule.document,
        "injected": rule.taken,
        "is_over": rule.is_over,
    }
