"""SASL: how clients say who they are, by Kafka's mechanisms."""
