"""Our tables against those of a release of Apache Kafka: `make reference VERSION=x.y.z`."""
