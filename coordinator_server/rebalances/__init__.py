"""The records of explained rebalances: made, kept, published, read back and told as a story.

The core keeps the account of a rebalance (`core.groups.explain`); here it becomes a record
(`record`, described by `schema`), which `journal` writes to the log, to a ring per group and
to the topic `__group_events`. `events_reader` reads that topic from outside, `story` puts it
into words.
"""
