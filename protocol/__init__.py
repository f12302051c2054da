"""Bytes <-> objects: Kafka's messages, record batches and log records. Pure: no I/O, no clock.

Every message is declared once (`protocol.schema`, `protocol.apis`); the declaration yields a
construct Struct per version, and from that Struct a generator writes the fast codec.
"""

REFERENCE_VERSION = "4.4.0"
"""The release of Apache Kafka whose versions, fields, answers and defaults are ours."""
