"""AddRaftVoter: always refused, see `raft_voters`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.apis.raft_voters import cluster_error, fixed, is_voter
from protocol.apis.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Generator

    from coordinator_server.apis.raft_voters import Error
    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call
    from coordinator_server.steps import Steps

_LISTENER = "CONTROLLER"
"""The listener name that the request must contain: the first of controller.listener.names."""


def handle(broker: Broker, call: Call, request: AddRaftVoterRequest) -> Steps:
    """Respond with the validation error; a valid request gets UNSUPPORTED_VERSION."""
    error = cluster_error(request.cluster_id, broker.cluster_id)
    if error is None:
        error = yield from _request_error(request)
    code, message = error or fixed("adding")
    call.reply(AddRaftVoterResponse(error_code=code, error_message=message))


def _request_error(request: AddRaftVoterRequest) -> Generator[None, None, Error | None]:
    if not is_voter(request.voter_id, request.voter_directory_id):
        return ErrorCode.INVALID_REQUEST, "Add voter request didn't include a valid voter"
    endpoints: dict[str, str] = {}
    for listener in request.listeners:
        endpoints[listener.name.upper()] = f"{listener.host}/<unresolved>:{listener.port}"
        yield
    if _LISTENER in endpoints:
        return None
    shown = ", ".join(f"ListenerName({name})={place}" for name, place in endpoints.items())
    text = (
        f"Add voter request didn't include the endpoint (Endpoints(endpoints={{{shown}}})) for the "
        f"default listener ListenerName({_LISTENER})"
    )
    return ErrorCode.INVALID_REQUEST, text
