#!/bin/sh
# As in bitnami/kafka: runs the command that follows.
exec "$@"
