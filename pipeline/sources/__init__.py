"""The inputs of the pipeline: segment files, a running broker, and Spark's own progress."""
