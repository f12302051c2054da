"""Bytes at rest: segments, indexes, recovery, compaction and the topics' catalogue.

Everything here is synchronous and reaches the disk through one interface (`storage.disk`): tests
walk every crash point with the disk in memory (`storage.memory_disk`).
"""
