"""What consumer, share and streams groups have in common, as they all keep their state by epochs.

Source: Kafka's package `org.apache.kafka.coordinator.group.modern`.
"""
