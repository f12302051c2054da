#!/bin/sh
# As in bitnami/kafka: what the image runs.
exec /etc/kafka/docker/run
