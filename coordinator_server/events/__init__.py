"""Structured log events: their vocabulary, and the log that writes them."""
