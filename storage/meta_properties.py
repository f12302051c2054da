"""meta.properties: the node id and cluster id of a data directory."""

from __future__ import annotations

import os

from storage.checkpoints import (
    META_PROPERTIES_FILE,
    format_properties,
    read_properties,
    topic_id_text,
)
from storage.disk import Disk, write_atomically
from storage.errors import StorageError


def take_directory(disk: Disk, directory: str, node_id: int, cluster_id: str | None) -> str:
    """Return the cluster id of a data directory.

    A new directory gets `cluster_id`, or a random id if None. Raises StorageError if the directory
    belongs to another node, or if its file is damaged.
    """
    path = f"{directory}/{META_PROPERTIES_FILE}"
    if not disk.exists(path):
        cluster_id = cluster_id or topic_id_text(os.urandom(16))
        properties = {
            "cluster.id": cluster_id,
            "directory.id": topic_id_text(os.urandom(16)),
            "node.id": str(node_id),
            "version": "1",
        }
        write_atomically(disk, path, format_properties(properties))
        return cluster_id
    properties = read_properties(disk.read_file(path))
    stored_node_id = properties.get("node.id", properties.get("broker.id", str(node_id)))
    if stored_node_id != str(node_id):
        raise StorageError(
            f"the data directory {directory} belongs to node {stored_node_id}, not {node_id}"
        )
    if not properties.get("cluster.id") or "version" not in properties:
        raise StorageError(
            f"{path} is damaged, it has no cluster.id or no version: put it back, or remove it "
            "and a start makes another one, with a new cluster id"
        )
    return properties["cluster.id"]
