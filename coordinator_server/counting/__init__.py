"""Counts for metrics that are no state: requests, connections, rebalances.

Nothing here is imported without a control server.
"""
