"""The common parts of groups whose members have epochs."""
