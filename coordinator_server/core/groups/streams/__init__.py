"""Streams groups of KIP-1071: the broker assigns the tasks of a Kafka Streams application.

The application sends its topology, the topics it reads and writes (`topology`). The broker checks
that the topics exist with the required partition counts (`configure`), and computes the task
assignment. As in consumer groups there are three epochs: of the group, of the target assignment,
and of each member, which reaches the target step by step (`reconcile`). Requests and timers only
compute records; `coordinator.task` appends and replays the records.
"""
