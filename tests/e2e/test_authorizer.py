"""The authorizer in a real process, with unauthenticated clients and ACLs for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from coordinator_server.client import Address, ClientConnection, ClientSettings
from coordinator_server.config.authorizer_settings import AUTHORIZER_CLASS
from protocol.apis.create_acls import AclCreation, CreateAclsRequest
from protocol.apis.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from protocol.apis.describe_acls import DescribeAclsRequest
from protocol.apis.heartbeat import HeartbeatRequest
from protocol.errors import ErrorCode
from tests.support import Broker, Serve

SECURED = {"authorizer.class.name": AUTHORIZER_CLASS}
HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
READ_GROUP = AclCreation(
    resource_type=3,
    resource_name="g",
    principal="User:alice",
    host="*",
    operation=3,
    permission_type=3,
)


def connected(broker: Broker) -> ClientConnection:
    """Connect to a broker."""
    host, port = broker.bootstrap_servers.split(":")
    return ClientConnection(Address(host, int(port)), ClientSettings())


def test_nobody_may_do_anything_at_first() -> None:
    """Without ACLs, requests for groups and for the cluster are refused."""
    with Broker(SECURED) as broker:
        connection = connected(broker)
        refused = connection.ask(HEARTBEAT).error_code
        acls = connection.ask(CreateAclsRequest(creations=[READ_GROUP])).results
        connection.close()
    assert refused == ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert [one.error_code for one in acls] == [ErrorCode.CLUSTER_AUTHORIZATION_FAILED]


def test_acls_outlive_the_process(tmp_path: Path) -> None:
    """ACLs that a super user added also apply to other clients after a restart."""
    owned = {**SECURED, "super.users": "User:ANONYMOUS"}
    with Broker(owned, data_dir=tmp_path) as broker:
        connection = connected(broker)
        mine = AclCreation(
            resource_type=3,
            resource_name="g",
            principal="User:ANONYMOUS",
            host="127.0.0.1",
            operation=3,
            permission_type=3,
        )
        results = connection.ask(CreateAclsRequest(creations=[READ_GROUP, mine])).results
        assert [one.error_code for one in results] == [0, 0]
        connection.close()
    with Broker(SECURED, data_dir=tmp_path) as broker:
        connection = connected(broker)
        assert connection.ask(HEARTBEAT).error_code == ErrorCode.UNKNOWN_MEMBER_ID
        other = HeartbeatRequest(group_id="h", generation_id=1, member_id="m")
        assert connection.ask(other).error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
        connection.close()


def test_without_an_authorizer_there_are_no_acls() -> None:
    """The ACL APIs answer SECURITY_DISABLED with Kafka's error messages."""
    with Broker() as broker:
        connection = connected(broker)
        created = connection.ask(CreateAclsRequest(creations=[READ_GROUP])).results
        wanted = DeleteAclsFilter(
            resource_type_filter=1, pattern_type_filter=1, operation=1, permission_type=1
        )
        deleted = connection.ask(DeleteAclsRequest(filters=[wanted])).filter_results
        described = connection.ask(
            DescribeAclsRequest(
                resource_type_filter=1, pattern_type_filter=1, operation=1, permission_type=1
            )
        )
        connection.close()
    answers = [(one.error_code, one.error_message) for one in (*created, *deleted, described)]
    disabled = ErrorCode.SECURITY_DISABLED
    assert answers == [
        (disabled, "No Authorizer is configured."),
        (disabled, "No Authorizer is configured."),
        (disabled, "No Authorizer is configured on the broker"),
    ]


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        (
            "authorizer.class.name=kafka.security.authorizer.AclAuthorizer",
            "went with ZooKeeper, write org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        ),
        ("authorizer.class.name=com.example.Mine", "com.example.Mine cannot be loaded"),
        ("super.users=alice", "super.users: alice is no principal such as User:admin"),
    ],
)
def test_settings_that_cannot_be_are_refused(setting: str, told: str) -> None:
    """An invalid setting ends the start with a message that names a valid value."""
    serve = Serve("--set", setting)
    assert serve.run() == 2
    assert told in serve.log
