"""Column names that identify a row, by which frames are joined and grouped."""

PARTITION = ("topic", "partition")
KEY = ("group", *PARTITION)
READER = (*KEY, "source")
"""Identifies a reader of a partition in every frame made from positions."""

PLACE = ("group", "log_partition", "log_offset")
"""Identifies a record of a group in the offsets log."""
