"""The matrix of API x version x principal x ACLs, played with a Kafka and with our broker.

A case is a request, `grants` has the ACLs of its principals, and a cell is one case at one version
with one grant. `kafka.json.gz` has Kafka's answers. See docs/authorizer.md.

    python -m tests.conformance.access record
"""
