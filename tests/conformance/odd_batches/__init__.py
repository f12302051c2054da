"""Damaged and odd record batches, and what Kafka answers to them and stores of them."""
