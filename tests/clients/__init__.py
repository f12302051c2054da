"""Real kafka-python, aiokafka and confluent-kafka with a broker process, over real sockets."""
