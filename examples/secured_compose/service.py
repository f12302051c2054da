"""Writes a record and reads it as the user whose settings are in the file SETTINGS."""

from __future__ import annotations

import json
import os
from pathlib import Path

from kafka import KafkaConsumer, KafkaProducer


def main() -> None:
    """Produce and consume a record and print the result."""
    config = json.loads(Path(os.environ["SETTINGS"]).read_text())
    config["bootstrap_servers"] = os.environ["BOOTSTRAP"]
    with KafkaProducer(**config) as producer:
        producer.send("orders", b"hello").get(30)
    consumer = KafkaConsumer("orders", **config, group_id="app", auto_offset_reset="earliest")
    record = next(consumer)
    print(f"{record.topic}: {record.value.decode()}", flush=True)
    consumer.close()


if __name__ == "__main__":
    main()
