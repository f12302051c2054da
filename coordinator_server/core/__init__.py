"""Coordinator logic as pure code, without a clock, disk or event loop.

A core takes requests, the time and log records, and returns responses, records to write and
deadlines. `coordinator_server.runtime` and `coordinator_server.coordinator` run the cores; the
simulation runs the same cores with its own clock.
"""
