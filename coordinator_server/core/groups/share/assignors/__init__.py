"""The assignor of share groups, on the `GroupSpec` of consumer groups."""
