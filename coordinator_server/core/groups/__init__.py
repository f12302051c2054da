"""The core: the group coordinator as pure code, for groups of all kinds.

No loop, socket, disk, clock, randomness or logger: requests, time and member ids come in as
arguments, and what is to happen goes out as `Effects`. Start reading at `group`, then
at the kind: `classic.state` and `classic.metadata`, `consumer`, `share`, `streams`.
"""
