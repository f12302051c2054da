"""Faults of a real process under load: it is killed, and nothing acknowledged may be missing."""
