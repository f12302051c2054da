"""Answers of Apache Kafka 4.1, played against our broker.

`recorded/` holds scenarios and answers as they were recorded; it is data and stays as it is.
`scenarios/` holds ours, `orders.json` Kafka's answers to them; docs/conformance.md tells the rest.
"""
