"""Consumer groups of KIP-848: the broker assigns partitions, members reconcile with heartbeats.

A group has three layers of state, all of them made by records alone. What each member asks for
(`member.Member`), what each member shall own (the target assignment), and what each member owns
now (`member.CurrentAssignment`). An epoch goes with each: the group epoch rises when members or
topics change, the assignment epoch follows it when a target is computed, and a member's epoch when
the member has given up what it shall not own. Requests and timers only compute records; the driver
appends and replays them.
"""
