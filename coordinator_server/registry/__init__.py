"""Decodes records in Confluent's wire format with the schemas of a schema registry.

The work is done by a worker process (`worker`), because schemas, responses of the registry and
values may be hostile: fastavro holds Python's global lock while it decodes, so in a thread of the
broker an endless value would stop the event loop. The broker ends a worker that takes too long.
"""
