"""Metrics of the brokers in Prometheus' format, at `GET /metrics` of the control server."""
