"""Client telemetry (KIP-714): subscriptions of clients to metrics, and the pushed metrics."""
