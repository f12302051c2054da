"""The broker's clocks, including the virtual clock that tests advance, and the step runner."""
