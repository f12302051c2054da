"""Simulations of the coordinators: virtual clock, seeded faults, model clients and checkers."""
