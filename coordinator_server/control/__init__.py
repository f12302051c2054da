"""The control server: what can be done to a running cluster from outside, over HTTP."""
