"""ApiVersions: the supported API versions and the features of the cluster (KIP-35, KIP-584).

From version 5 on, a client may name the cluster and node it expects (KIP-1242).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.security import client_software
from protocol.apis.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from protocol.errors import ErrorCode
from protocol.registry import SPECS

if TYPE_CHECKING:
    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call

_PRODUCE_KEY = 0

# Each row: name, minimum and maximum level supported by the reference version, and the finalized
# level of a new cluster (metadata.version 33 is 4.4-IV2). Level 0 means not finalized.
_FEATURES = (
    ("group.version", 0, 1, 1),
    ("kraft.version", 0, 1, 0),
    ("metadata.version", 7, 33, 33),
    ("share.version", 0, 2, 2),
    ("streams.version", 0, 1, 1),
    # At level 2 the Java client uses transactions v2 (KIP-890): Produce 12 and EndTxn 5, and no
    # AddPartitionsToTxn. librdkafka reads no features and uses v1.
    ("transaction.version", 0, 2, 2),
    ("eligible.leader.replicas.version", 0, 1, 1),
)

# The Java client ignores features with a lower epoch than it has seen. Kafka sends a metadata log
# offset as epoch. This broker sends the sum of all levels, which also grows when a level rises.
_FEATURES_EPOCH = sum(level for _, _, _, level in _FEATURES)


def handle(broker: Broker, call: Call, request: ApiVersionsRequest) -> None:
    """Respond with all APIs of the registry, unless the client is refused.

    Responds INVALID_REQUEST to a client without a valid name, and REBOOTSTRAP_REQUIRED to a client
    that expects another broker.
    """
    version = call.api_version
    if not client_software.is_valid_request(request, version):
        call.reply(ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST))
        return
    if version >= client_software.FIRST_VERSION:
        call.connection.software = request.client_software_name, request.client_software_version
    if _is_misdirected(broker, call, request):
        call.reply(ApiVersionsResponse(error_code=ErrorCode.REBOOTSTRAP_REQUIRED))
        return
    call.reply(
        ApiVersionsResponse(
            api_keys=[
                ApiVersion(
                    api_key=spec.key,
                    # Old librdkafka disconnects from a broker without Produce v0 (KIP-896);
                    # versions below 3 are advertised, but refused when used.
                    min_version=0 if spec.key == _PRODUCE_KEY else spec.min_version,
                    max_version=spec.max_version,
                )
                for spec in SPECS
            ],
            # Clients that send ApiVersions v3 fail on a minimum level of 0 (KAFKA-17011).
            supported_features=[
                SupportedFeatureKey(name=name, min_version=least, max_version=most)
                for name, least, most, _ in _FEATURES
                if version >= 4 or least > 0
            ],
            finalized_features_epoch=_FEATURES_EPOCH,
            finalized_features=[
                FinalizedFeatureKey(name=name, min_version_level=level, max_version_level=level)
                for name, _, _, level in _FEATURES
                if level > 0
            ],
        )
    )


def feature_levels() -> tuple[tuple[str, int, int, int], ...]:
    """Return the features: name, minimum and maximum supported level, finalized level."""
    return _FEATURES


def _is_misdirected(broker: Broker, call: Call, request: ApiVersionsRequest) -> bool:
    """Return whether a client expects another cluster or another node.

    Returns False before SASL authentication, as in Kafka.
    """
    if request.cluster_id is None or call.connection.is_unauthenticated:
        return False
    return request.cluster_id != broker.cluster_id or request.node_id != broker.node_id
