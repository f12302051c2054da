"""One module per API key: its versions, what each version changed, and its two messages."""
