"""Where the fields of a record batch lie (format 2, KIP-98; Kafka's DefaultRecordBatch).

Facts alone, for those who read batches (`protocol.batch`) and those who store them (`storage`).
"""

from __future__ import annotations

from struct import Struct

HEADER = Struct(">qiibIhiqqqhii")
"""Base offset, length, leader epoch, magic, CRC, attributes, last offset delta, base and max
timestamp, producer id and epoch, base sequence, count of records."""

HEADER_BYTES = HEADER.size

BEFORE_CRC = Struct(">qiibI")
"""The front of the header: what stands before the CRC, and the CRC."""

AFTER_CRC = Struct(">hiqqqhii")
"""The rest of it: what the CRC covers of the header."""

LOG_OVERHEAD_BYTES = 12
"""Base offset and length, which the length does not count."""

MAGIC_POSITION = 16
CRC_POSITION = 17
CRC_START = 21
"""The CRC covers everything from here, the attributes, on."""

MAX_TIMESTAMP_POSITION = 35

COMPRESSION_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40
"""What the attributes say; the horizon is that of KIP-534."""
