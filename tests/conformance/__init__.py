"""Answers of Apache Kafka's reference version, played against our broker.

`recorded/` holds scenarios and answers as they were recorded; it is data and stays as it is.
`scenarios/` holds ours, `orders.json` Kafka's answers to them. Files with `-4.1` are what that
release answered. docs/conformance.md says the rest.
"""
