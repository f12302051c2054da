"""The code that consumer, share and streams groups share: groups with epochs.

Source: Kafka's package `org.apache.kafka.coordinator.group.modern`.
"""
