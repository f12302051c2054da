"""Share groups (KIP-932): members share partitions and acknowledge individual records.

As in consumer groups, the broker assigns partitions and members follow with heartbeats, but no
revocation is needed: several members can read one partition. A partition is assigned only after its
state has been initialized at the share coordinator. The group requests the initialization
(`effects.StateCall`) and records which partitions have state (`partitions`). Delivery state and the
share-partition start offset are not kept in this package.
"""
