"""Client telemetry (KIP-714): which client pushes which metrics, and what clients have pushed."""
