"""Who may connect, who may do what, and how much: TLS, SASL, the authorizer, quotas."""
