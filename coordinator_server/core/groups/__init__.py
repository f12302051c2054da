"""The group coordinator as pure code, for groups of every kind.

The code has no event loop, socket, disk, clock, randomness or logger: requests, the time and member
ids are arguments, and the results are `Effects`. Start reading at `group`, then read one kind:
`classic.state` and `classic.metadata`, `consumer`, `share` or `streams`.
"""
