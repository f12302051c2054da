"""The core: the classic group coordinator as pure code.

No loop, socket, disk, clock, randomness or logger: requests, time and member ids come in as
arguments, and what is to happen goes out as `Effects`. Start reading at `state`, then `metadata`.
"""
