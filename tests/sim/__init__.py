"""Simulation of the heart: virtual clock, seeded randomness, model clients, faults, checkers."""
