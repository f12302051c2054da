"""Topics and partitions on top of the logs: names, configs, sessions, purgatory, producer ids."""
