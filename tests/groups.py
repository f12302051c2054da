"""Describe a broker's groups in the format of `expected.json`."""

from __future__ import annotations

from typing import Any

import kafka

Groups = dict[str, dict[str, Any]]


def groups_of(bootstrap: str) -> Groups:
    """Return type, protocol type, member count, instance ids and committed offsets by group."""
    admin = kafka.KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        found: Groups = {}
        for listed in admin.list_groups():
            name = listed["group_id"]
            members = admin.describe_groups([name])[name]["members"]
            instances = [one["group_instance_id"] for one in members]
            offsets = admin.list_group_offsets([name])[name]
            found[name] = {
                "type": listed["group_type"].capitalize(),
                "protocol_type": listed["protocol_type"],
                "members": len(members),
                "instances": sorted(one for one in instances if one),
                "offsets": {
                    f"{partition.topic}-{partition.partition}": {
                        "offset": one.offset,
                        "metadata": one.metadata,
                        "leader_epoch": one.leader_epoch,
                    }
                    for partition, one in offsets.items()
                },
            }
        return found
    finally:
        admin.close()
