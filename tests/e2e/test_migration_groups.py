"""`promote` and `import` copy offsets and configs of share, streams and consumer groups."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from coordinator_server.client import Client
from protocol.apis.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.e2e.migrations import (
    STARTS,
    STREAMS_OFFSETS,
    alter_starts,
    assert_moved,
    heartbeat,
    prepare,
    run,
    state,
)
from tests.support import Broker


def test_offsets_and_configs_of_every_kind_of_group_go_over(tmp_path: Path) -> None:
    """Offsets, share-group start offsets and group configs are copied.

    A higher start offset in the target is kept.
    """
    with (
        Broker(data_dir=tmp_path / "a") as a,
        Broker(data_dir=tmp_path / "b") as b,
    ):
        source, target = a.bootstrap_servers, b.bootstrap_servers
        prepare(source)
        done = run("promote", "--from", source, "--to", target)
        assert done.returncode == 0, done.stderr
        assert "4 committed offsets, 0 were further on, configs of 2 groups" in done.stdout
        assert_moved(source, target)
        with closing(Client(target)) as client:
            alter_starts(client, "queue", {0: 29})
        again = run("promote", "--from", source, "--to", target)
        assert again.returncode == 0, again.stderr
        assert "3 committed offsets, 1 were further on" in again.stdout
        assert state(target)["starts"] == {**STARTS, 0: 29}
        # A streams client joins with the type streams and continues from the copied offsets.
        with closing(Client(target)) as client:
            assert heartbeat(client, "counts", "b" * 22) > 0
        moved = state(target)
        assert moved["types"]["counts"] == "streams"
        assert moved["committed"] == STREAMS_OFFSETS


def test_a_share_group_with_members_is_refused(tmp_path: Path) -> None:
    """The start offsets of a share group with members cannot be set; the error names the group."""
    with (
        Broker(data_dir=tmp_path / "a") as a,
        Broker(data_dir=tmp_path / "b") as b,
    ):
        prepare(a.bootstrap_servers)
        with closing(Client(b.bootstrap_servers)) as client:
            request = ShareGroupHeartbeatRequest(
                group_id="queue",
                member_id="c" * 22,
                member_epoch=0,
                subscribed_topic_names=["lines"],
            )
            assert not client.ask(request, client.coordinator("queue")).error_code
        done = run("import", "--from", a.bootstrap_servers, "--to", b.bootstrap_servers)
        assert done.returncode == 1
        assert "share group queue, TopicPartition(topic='lines', partition=" in done.stderr
        assert "NonEmptyGroup" in done.stderr
