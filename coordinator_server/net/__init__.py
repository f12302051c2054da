"""Sockets, frames and dispatch: receives requests and sends responses."""
