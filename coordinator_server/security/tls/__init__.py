"""TLS of listeners: key stores, contexts and principals of client certificates."""
