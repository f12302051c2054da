"""CPU benchmarks of the codec, the logs, the broker and the pipeline."""
