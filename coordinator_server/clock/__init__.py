"""Where the time comes from, and the virtual clock that tests advance."""
