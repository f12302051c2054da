"""The facts that the dump of a log must contain."""

from __future__ import annotations

import re

FACT = re.compile(r"(\w+): (\S+)")


# For each field of Kafka's dump: the name of the field in this project's dump.
BATCH_FACTS = {
    "baseOffset": "base_offset",
    "lastOffset": "last_offset",
    "count": "records",
    "baseSequence": "base_sequence",
    "lastSequence": "last_sequence",
    "producerId": "producer_id",
    "producerEpoch": "producer_epoch",
    "partitionLeaderEpoch": "leader_epoch",
    "isTransactional": "transactional",
    "isControl": "control",
    "position": "position",
    "size": "size_bytes",
    "magic": "magic",
    "compresscodec": "compression",
    "crc": "crc",
}
