"""Benchmarks: what the codec and the broker cost in CPU."""
