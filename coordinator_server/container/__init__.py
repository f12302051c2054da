"""What the container image runs: its entry point, its health check, Kafka's scripts."""
