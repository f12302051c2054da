"""The runtime of the group coordinator: the one way to the groups, their tasks and their log."""
