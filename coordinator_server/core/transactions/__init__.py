"""The core of transactions: decides the next state of a transactional id; pure code."""
