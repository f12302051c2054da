"""The OpenAPI 3.1 document, from the table of routes and the shapes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coordinator_server import __version__
from coordinator_server.control.routes import PATH_PARAMETERS, ROUTES
from coordinator_server.control.schema import schema_of, shape_named

if TYPE_CHECKING:
    from coordinator_server.control.request import ControlRequest
    from coordinator_server.control.route import ControlRoute

_ERROR = {
    "type": "object",
    "description": "The reason of a failure.",
    "properties": {"error": {"type": "string", "description": "what is wrong, with the value"}},
    "required": ["error"],
    "additionalProperties": False,
}


async def document(_: ControlRequest) -> dict[str, Any]:
    """GET /openapi.json: return the OpenAPI document of this API."""
    return openapi()


def openapi() -> dict[str, Any]:
    """Return the OpenAPI document."""
    definitions: dict[str, Any] = {"Error": _ERROR}
    paths: dict[str, dict[str, Any]] = {}
    for route in ROUTES:
        path, parameters = _path(route)
        operation: dict[str, Any] = {
            "operationId": operation_id(route),
            "summary": route.meaning,
            "tags": [route.verb.split(" ")[0] or route.path.split("/")[1] or "page"],
            "parameters": [*parameters, *map(_query_parameter, route.query)],
            "responses": _responses(route, definitions),
        }
        if route.needs is not None:
            operation["x-needs"] = {"operation": route.needs[0], "resource_type": route.needs[1]}
        if route.body:
            schema = schema_of(shape_named(route.body), definitions)
            operation["requestBody"] = {
                "required": True,
                "content": {"application/json": {"schema": schema}},
            }
        paths.setdefault(path, {})[route.method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {"title": "coordinator-server control API", "version": __version__},
        "paths": paths,
        "components": {
            "schemas": definitions,
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "user": {"type": "http", "scheme": "basic"},
            },
        },
        "security": [{}, {"token": []}, {"user": []}],
    }


def operation_id(route: ControlRoute) -> str:
    """Return the name of a route: its verb with `_`, which is the client's method."""
    return (route.verb or route.path.strip("/") or "page").replace(" ", "_").replace("-", "_")


def path_words(route: ControlRoute) -> list[str]:
    """Return the parameters in the path of a route."""
    return [word for word in route.path.strip("/").split("/") if word.isupper()]


def _path(route: ControlRoute) -> tuple[str, list[dict[str, Any]]]:
    """Return the path of a route in OpenAPI's notation, and the parameters in it."""
    path, parameters = route.path, []
    for word in path_words(route):
        kind, meaning = PATH_PARAMETERS[word]
        path = path.replace(f"/{word}", f"/{{{word.lower()}}}", 1)
        parameters.append(
            {
                "name": word.lower(),
                "in": "path",
                "required": True,
                "description": meaning,
                "schema": {"type": kind},
            }
        )
    return path, parameters


def _query_parameter(parameter: Any) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "in": "query",
        "required": parameter.is_required,
        "description": parameter.meaning,
        "schema": parameter.schema(),
    }


def _responses(route: ControlRoute, definitions: dict[str, Any]) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object"}
    if route.response:
        schema = schema_of(shape_named(route.response), definitions)
    if route.content_type != "application/json":
        schema = {"type": "string", "x-data": schema} if route.response else {"type": "string"}
    error = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    unavailable = {"503": {"description": "no broker of the process runs", "content": error}}
    return {
        "200": {"description": "OK", "content": {route.content_type: {"schema": schema}}},
        **(unavailable if route.needs_broker else {}),
        "default": {"description": "the request failed", "content": error},
    }
