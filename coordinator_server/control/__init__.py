"""The control server: an HTTP API to inspect and change a running cluster."""
