"""Codec tests: vectors recorded from Kafka, properties, truncations, random bytes."""
