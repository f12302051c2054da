"""Real kafka-python, aiokafka and confluent-kafka against a broker process, over real sockets."""
