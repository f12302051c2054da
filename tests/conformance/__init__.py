"""Recorded answers of Apache Kafka 4.1, played against our broker.

`recorded/` holds the scenarios and the answers as they were recorded; it is data and stays as it
is.
"""
