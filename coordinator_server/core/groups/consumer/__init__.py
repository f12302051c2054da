"""Consumer groups of KIP-848: the broker assigns partitions, members reconcile with heartbeats.

A group has three layers of state: the subscription of each member (`member.ConsumerMember`), the
target assignment, and the current assignment of each member (`member.CurrentAssignment`). The state
changes only when a record is replayed. Each layer has an epoch. The group epoch rises when members
or topics change. The assignment epoch follows the group epoch when a target is computed. A member's
epoch rises once the member has revoked the partitions that are not in its target. Requests and
timers only compute records; `coordinator.task` appends and replays the records.
"""
