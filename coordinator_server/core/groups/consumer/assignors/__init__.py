"""The assignors of consumer groups.

An assignor is a function of the group alone, `GroupSpec -> Assignment`. Source: the package
`org.apache.kafka.coordinator.group.assignor`.
"""
