"""Counts requests, connections and rebalances for the metrics.

This package is imported only by a process with a control server.
"""
