"""Streams groups of KIP-1071: the broker assigns the tasks of a Kafka Streams application.

The application says what it reads and writes (its topology, `topology`); the broker sees to it that
the topics are there and have the partitions that they need (`configure`), and computes who shall
run which tasks. As in consumer groups three epochs order this: that of the group, of the target
assignment, and of each member, which moves to the target step by step (`reconcile`). Requests and
timers only compute records; the driver appends and replays them.
"""
