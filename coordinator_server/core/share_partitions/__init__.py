"""The core of share groups (KIP-932): who holds which records, and what was made of them. Pure, as
`group` is: no loop, clock, disk or logger, they come in as arguments."""
