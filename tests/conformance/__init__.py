"""Compare our broker with the answers of Apache Kafka's reference version.

`recorded/` holds scenarios and answers as they were recorded; it is data and must not be changed.
`scenarios/` holds ours, `orders.json` Kafka's answers to them. Files with `-4.1` have the answers
of that release. See docs/conformance.md.
"""
