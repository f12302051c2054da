"""TLS of listeners: key stores, contexts, and the principals of client certificates."""
