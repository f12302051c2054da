"""Share groups (KIP-932): members share partitions, and acknowledge record by record.

As in consumer groups the broker assigns partitions and members follow with heartbeats, but a member
gives nothing up first: several may read one partition. A partition is assigned only once its state
has been initialized at the share coordinator, which the group asks for (`effects.StateCall`) and
keeps account of (`partitions`). Where the group has read up to is no matter of this package.
"""
