"""Structured log events: their vocabulary and the log that they go to."""
