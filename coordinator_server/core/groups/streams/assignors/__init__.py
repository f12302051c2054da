"""The assignor of streams groups.

Source: the package `org.apache.kafka.coordinator.group.streams.assignor`.
"""
