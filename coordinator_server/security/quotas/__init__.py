"""Quotas of clients: their limits, what they use of them, and how long they are to wait."""
