"""Fetches: the sessions of clients, what one fetch reads, and the purgatory where it waits."""
