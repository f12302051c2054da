"""The assignor of streams groups: who shall run which tasks.

Source: the package `org.apache.kafka.coordinator.group.streams.assignor`.
"""
