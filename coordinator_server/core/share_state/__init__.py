"""The core of the share coordinator: share-partition state from `__share_group_state` records.

The code is pure: it has no event loop, disk or clock. Source: kafka-share-coordinator.
"""
