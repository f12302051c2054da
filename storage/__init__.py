"""Bytes at rest: segments, indexes, recovery, compaction and the topics' catalogue.

Everything here is synchronous and reaches the disk through one door (`storage.disk`), so that each
crash point can be walked in tests with the in-memory twin (`storage.memory_disk`).
"""
