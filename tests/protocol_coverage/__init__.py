"""Collect the API versions that clients and tests use, for docs/protocol-coverage.md."""
