"""Benchmarks: what the codec, the logs, the broker and the pipeline cost in CPU."""
