"""SASL authentication with Kafka's mechanisms."""
