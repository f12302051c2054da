"""One module per API key: its versions, the changes of each version, and its two messages."""
