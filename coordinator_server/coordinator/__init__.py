"""The runtime of the coordinators: the one way to the groups, their tasks and their log.

The same for transactional ids and for the state of share partitions.
"""
