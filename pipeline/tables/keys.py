"""What names a row: the columns that frames are joined and grouped by."""

PARTITION = ("topic", "partition")
KEY = ("group", *PARTITION)
READER = (*KEY, "source")
"""A reader of a partition in every frame made from positions."""

PLACE = ("group", "log_partition", "log_offset")
"""A record of a group in the offsets log."""
