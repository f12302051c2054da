"""Where the pipeline reads from: segment files, a running broker, bronze files of before."""
