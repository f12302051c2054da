"""Sockets, frames and dispatch: how requests come in and answers go out."""
