"""The coordinators of a broker: groups, transactional ids and share-partition state.

Each coordinator routes requests to its keys, appends records to its internal topic and replays
them.
"""
