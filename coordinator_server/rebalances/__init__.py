"""Records that explain rebalances: building, storing, publishing, reading and printing them.

The core collects the data of a rebalance (`core.groups.explain`). `record` turns the data into a
record (described by `schema`), and `journal` writes the record to the log, to a history per group
and to the topic `__group_events`. `events_reader` reads this topic as a client; `story` formats a
record as text.
"""
