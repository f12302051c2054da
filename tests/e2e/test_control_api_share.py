"""The control API and share groups."""

from __future__ import annotations

from coordinator_server.testing.api import ControlApi
from protocol.apis.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from protocol.apis.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.e2e.control_api import CheckedControl
from tests.faults.client import frame_of
from tests.support import Broker, wait_for


def test_share_partitions_without_readers_have_a_lag() -> None:
    """Share partitions without readers have the lag of DescribeShareGroupOffsets."""
    with Broker() as broker:
        api = ControlApi(CheckedControl(broker.control.address))
        broker.create_topic("work", 2)
        broker.produce("work", "a", "b", "c")
        beat = ShareGroupHeartbeatRequest(
            group_id="g",
            member_id="AAAAAAAAAAAAAAAAAAAABw",
            member_epoch=0,
            subscribed_topic_names=["work"],
        )
        alter = AlterShareGroupOffsetsRequest(
            group_id="g",
            topics=[
                AlterShareGroupOffsetsRequestTopic(
                    topic_name="work",
                    partitions=[
                        AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=1),
                        AlterShareGroupOffsetsRequestPartition(partition_index=1, start_offset=0),
                    ],
                )
            ],
        )
        with broker.connect() as wire:
            for epoch in (0, -1):
                beat.member_epoch = epoch
                wire.ask(frame_of(beat, 1))
            assert api.groups_lag("g")["partitions"] == []
            wire.ask(frame_of(alter, 0))
        lag = api.groups_lag("g")
        for row in lag["partitions"]:
            assert row["lag"] == (row["end_offset"] or 0) - (1, 0)[row["partition"]]
        assert all(row["time_lag_ms"] is not None for row in lag["partitions"])
        (listed,) = api.groups_list()["groups"]
        assert (lag["lag"], listed["lag"]) == (2, 2)

        def has_sample() -> bool:
            samples = api.groups_lag_history("g")["samples"]
            return bool(samples) and samples[-1]["lag"] == 2

        wait_for(has_sample, "a sample of the lag", 20)
