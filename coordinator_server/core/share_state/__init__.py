"""The core of the share coordinator: the state of share partitions, kept by records of
`__share_group_state`. Pure, as `share` is. Source: kafka-share-coordinator."""
