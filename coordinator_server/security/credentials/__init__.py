"""Parsers for credentials that brokers and clients share: JAAS, SCRAM, JKS."""
