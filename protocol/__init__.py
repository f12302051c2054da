"""Encodes and decodes Kafka's messages, record batches and log records, without I/O or a clock.

Every message is declared once (`protocol.schema`, `protocol.apis`). Each version of a declaration
becomes a construct Struct, from which a generator writes the fast codec.
"""

REFERENCE_VERSION = "4.4.0"
"""The Apache Kafka release that defines the supported versions, fields, responses and defaults."""
