"""A small synchronous client of the protocol, for tools."""
