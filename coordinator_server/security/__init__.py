"""Security: TLS, SASL authentication, authorization and quotas."""
