"""Compare our tables with those of a release of Apache Kafka: `make reference VERSION=x.y.z`."""
