"""Background work on the logs: compaction, retention, checkpoints, syncs."""
