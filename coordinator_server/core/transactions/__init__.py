"""The core of transactions: what a transactional id may do next. Pure, as `group` is."""
