"""The runtime of the group coordinator: the one door to the groups, their tasks and their log."""
