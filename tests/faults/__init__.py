"""Kill a real process under load, and check that no acknowledged write is lost."""
