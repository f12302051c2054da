"""Client quotas: limits, usage and throttle times."""
