"""What every coordinator does alike, whatever it keeps: groups, transactional ids, share state.

It takes over the partitions of its topic that its broker leads, loads them, and lets them go. Each
request is decided by a pure core; the record that it asks for is appended, becomes the state, and
is flushed before the answer goes out. Source: CoordinatorRuntime, CoordinatorLoaderImpl.
"""
