"""The core of share groups (KIP-932): which member holds which records, and their delivery state.

The code is pure: event loop, clock, disk and logger are not used, or are passed in as arguments.
"""
