"""Which clients and tests use each API at each version, for docs/protocol-coverage.md."""
