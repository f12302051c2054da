"""Several brokers in one process, without sockets."""
