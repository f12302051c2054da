"""Storage of records: segments, indexes, recovery, compaction and the topic catalogue.

All code here is synchronous and accesses the disk through one interface (`storage.disk`), so that
tests can simulate a crash at every point with a disk in memory (`storage.memory_disk`).
"""
