"""Topics and partitions on top of the logs: names, configs, leadership, producer ids."""
