"""What coordinators decide, as pure code: it knows the protocol, and no clock, disk or loop.

A core takes requests, the time and the records of the log, and gives answers, records to write and
deadlines. `coordinator_server.runtime` and `coordinator_server.coordinator` run it; so does the
simulation, with a clock of its own.
"""
