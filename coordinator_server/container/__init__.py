"""The programs of the container image: its entry point, its health check, Kafka's scripts."""
