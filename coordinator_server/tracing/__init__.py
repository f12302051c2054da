"""OpenTelemetry traces and logs (`serve --otel`): requests, rebalances, events of the log.

Without --otel nothing of this package is imported, and requests run no code of it.
"""
