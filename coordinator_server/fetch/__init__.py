"""Fetch requests: fetch sessions, reading partitions, and the purgatory for delayed fetches."""
