"""Texts and files with credentials, as both sides of a connection read them: JAAS, SCRAM, JKS."""
