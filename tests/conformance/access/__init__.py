"""The matrix of API x version x principal x ACLs, played against a Kafka and against our broker.

A case is a request, `grants` says which ACLs its principals have, and a cell is one case at one
version for one grant. `kafka.json.gz` keeps what Kafka answered; docs/authorizer.md says the rest.

    python -m tests.conformance.access record
"""
