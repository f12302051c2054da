"""Damaged and odd record batches, with Kafka's answers and the batches that it stores."""
