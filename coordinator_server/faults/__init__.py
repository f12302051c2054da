"""Faults on demand: rules that make the broker answer errors, wait, or drop connections.

Without a rule for an API, the requests of this API run no code of this package.
"""
