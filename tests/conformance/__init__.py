"""Compare our broker with the answers of Apache Kafka's reference version.

`scenarios/` has the scenarios. Data files (.txt) contain Kafka's answers; the answers to scenarios
in Python modules are in JSON files, such as orders.json. `orders-4.1.json` has the answers of Kafka
4.1 that differ. See docs/conformance.md.
"""
