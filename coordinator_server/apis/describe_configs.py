"""DescribeConfigs: configs of topics, brokers, groups and client metrics, with their sources."""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable
from typing import TYPE_CHECKING

from coordinator_server.config.dynamic_settings import java_integer
from coordinator_server.net.error_response import Failure, error_response_steps
from coordinator_server.topics.names import name_error
from coordinator_server.topics.topic_configs import (
    DescribedConfig,
    describe,
    describe_all_brokers,
    describe_broker,
    describe_client_metrics,
    describe_group,
    describe_logger,
)
from protocol.apis.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call
    from coordinator_server.steps import Steps

_TOPIC = 2
_BROKER = 4
_BROKER_LOGGER = 8
_CLIENT_METRICS = 16
_GROUP = 32
_KNOWN = frozenset({_TOPIC, _BROKER, _BROKER_LOGGER, _CLIENT_METRICS, _GROUP})


def handle(broker: Broker, call: Call, request: DescribeConfigsRequest) -> Steps:
    """Respond with one result per resource; an unknown resource type fails all resources."""
    for resource in request.resources:
        if resource.resource_type not in _KNOWN:
            failure = Failure(ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_REQUEST.message)
            refusal = yield from error_response_steps(
                DescribeConfigsResponse, request, call.api_version, failure
            )
            assert refusal is not None
            call.reply(refusal)
            return
        yield
    response = DescribeConfigsResponse()
    for resource in request.resources:
        response.results.append((yield from _result(broker, call, request, resource)))
        yield
    response.results = call.rights.after(response.results)
    call.reply(response)


def _result(
    broker: Broker, call: Call, request: DescribeConfigsRequest, resource: DescribeConfigsResource
) -> Generator[None, None, DescribeConfigsResult]:
    result = DescribeConfigsResult(
        error_message="",
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
    error, configs = _find(broker, call, resource)
    if error is not None:
        result.error_code, result.error_message = error
        return result
    described = {}
    for config in configs:
        described[config.name] = config
        yield
    names: Collection[str] = described
    if resource.configuration_keys:  # an empty list selects all configs, like null
        names = set()
        for name in resource.configuration_keys:
            if name in described:
                names.add(name)
            yield
    result.configs = [
        _described(config, request) for name, config in described.items() if name in names
    ]
    return result


def _find(
    broker: Broker, call: Call, resource: DescribeConfigsResource
) -> tuple[tuple[ErrorCode, str | None] | None, Iterable[DescribedConfig]]:
    """Return (error or None, configs) of a resource."""
    name = resource.resource_name
    if resource.resource_type == _TOPIC:
        message = name_error(name)
        if message is not None:
            return (ErrorCode.INVALID_TOPIC_EXCEPTION, message), ()
        topic = broker.topics.topic(name)
        if topic is None:
            return (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ""), ()
        return None, describe(broker.config, topic.configs)
    if resource.resource_type in (_BROKER, _BROKER_LOGGER):
        return _find_broker(broker, call, resource)
    if resource.resource_type == _GROUP:
        if not name:
            return (ErrorCode.INVALID_REQUEST, "Group name must not be empty"), ()
        return None, describe_group(broker.config, broker.group_configs.own(name))
    if not name:
        text = "Client metrics subscription name must not be empty"
        return (ErrorCode.INVALID_REQUEST, text), ()
    return None, describe_client_metrics(broker.telemetry.configs.own(name))


def _find_broker(
    broker: Broker, call: Call, resource: DescribeConfigsResource
) -> tuple[tuple[ErrorCode, str | None] | None, Iterable[DescribedConfig]]:
    """Return (error or None, configs) of this broker, of all brokers, or of the loggers."""
    name = resource.resource_name
    loggers = resource.resource_type == _BROKER_LOGGER
    if not name and not loggers:
        return None, describe_all_brokers(broker.config)
    if not name:
        return (ErrorCode.INVALID_REQUEST, "Broker id must not be empty"), ()
    broker_id = java_integer(name)
    if broker_id is None:
        return (ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}"), ()
    if broker_id != broker.node_id:
        expected = f"{broker.node_id}" if loggers else f"{broker.node_id} or empty string,"
        message = f"Unexpected broker id, expected {expected} but received {broker_id}"
        return (ErrorCode.INVALID_REQUEST, message), ()
    if loggers:
        return None, describe_logger()
    return None, describe_broker(broker.config, broker.advertised_listeners(call.connection))


def _described(
    config: DescribedConfig, request: DescribeConfigsRequest
) -> DescribeConfigsResourceResult:
    described = DescribeConfigsResourceResult(
        name=config.name,
        value=config.value,
        read_only=config.read_only,
        is_sensitive=config.is_sensitive,
        config_source=config.source,
        config_type=config.kind,
        documentation=config.documentation if request.include_documentation else None,
    )
    if request.include_synonyms:
        described.synonyms = [
            DescribeConfigsSynonym(name=name, value=value, source=source)
            for name, value, source in config.synonyms
        ]
    return described
