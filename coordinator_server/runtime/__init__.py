"""The common base of the coordinators of groups, transactional ids and share state.

A coordinator loads the partitions of its topic that its broker leads, and unloads them when
leadership moves. A pure core decides each request; the resulting record is appended, becomes the
state, and is flushed before the response is sent. Source: CoordinatorRuntime,
CoordinatorLoaderImpl.
"""
