"""The assignor of share groups, which uses the `GroupSpec` of consumer groups."""
