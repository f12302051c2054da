"""The assignors of groups whose partitions the coordinator assigns: who shall own what.

Each is a function of the group alone, `GroupSpec -> Assignment`. Source: the package
`org.apache.kafka.coordinator.group.assignor`.
"""
