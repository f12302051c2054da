"""The heart: the classic group coordinator as pure code.

No loop, socket, disk, clock, randomness or logger: requests, time and member ids come in as
arguments, and what shall happen goes out as `Effects`. Begin reading at `state`, then `metadata`.
"""
