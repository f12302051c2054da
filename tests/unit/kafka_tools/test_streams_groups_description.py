"""The printed topology of a streams group."""

from __future__ import annotations

from coordinator_server.kafka_tools.streams_groups_description import format_topology
from protocol.apis.streams_group_describe import (
    DescribedGlobalStore,
    DescribedNode,
    DescribedNodes,
    TopologyDescription,
)


def test_a_topology_is_printed_as_kafkas_formatter_does() -> None:
    """A topology is printed as by TopologyDescriptionFormatter of Apache Kafka 4.4.0."""
    source = DescribedNode(name="in", node_type=1, source_topics=["b", "a"], successors=["map"])
    processor = DescribedNode(
        name="map", node_type=2, stores=["y", "x"], successors=["out", "other"]
    )
    sinks = [
        DescribedNode(name="out", node_type=3, sink_topic="t"),
        DescribedNode(name="other", node_type=3),
    ]
    store = DescribedGlobalStore(
        source=DescribedNode(name="gin", node_type=1, source_topics=["g"], successors=["gp"]),
        processor=DescribedNode(name="gp", node_type=2, stores=["gs"]),
    )
    part = DescribedNodes(subtopology_id="0", nodes=[source, processor, *sinks])
    graph = TopologyDescription(subtopologies=[part], global_stores=[store])
    assert format_topology(graph) == (
        "Topologies:\n"
        "   Sub-topology: 0\n"
        "    Source: in (topics: [a, b])\n"
        "      --> map\n"
        "    Processor: map (stores: [x, y])\n"
        "      --> other, out\n"
        "      <-- in\n"
        "    Sink: out (topic: t)\n"
        "      <-- map\n"
        "    Sink: other (topic: null)\n"
        "      <-- map\n"
        "\n"
        "   Sub-topology: 1 for global store (will not generate tasks)\n"
        "    Source: gin (topics: [g])\n"
        "      --> gp\n"
        "    Processor: gp (stores: [gs])\n"
        "      --> none\n"
        "      <-- gin\n"
        "\n"
    )
