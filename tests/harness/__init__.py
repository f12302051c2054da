"""The real broker without sockets: composition root, disk in memory, virtual clock.

`broker` has brokers and clients that send them requests; `groups`, `transactions` and `shares` add
the requests of one kind of client. Every package of tests may import this one.
"""
