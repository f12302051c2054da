"""Deliberate bugs in transactions, which the simulation of transactions has to see."""

from __future__ import annotations

from tests.sim.bug import Bug

WORLD = "tests.sim.transactions"


def _bug(name: str, module: str, fragment: str, replacement: str, *, is_quick: bool = False) -> Bug:
    return Bug(name, module, fragment, replacement, is_quick, WORLD)


TRANSACTION_BUGS = [
    _bug(
        "any epoch may add partitions",
        "core.transactions.add_partitions",
        "if metadata.producer_epoch != producer_epoch:",
        "if False:",
    ),
    _bug(
        "any epoch may end a transaction",
        "core.transactions.end_transaction",
        "if metadata.producer_epoch != producer_epoch and not is_retry:",
        "if False:",
    ),
    _bug(
        "partitions that were added before are forgotten",
        "core.transactions.add_partitions",
        "metadata.partitions.union(partitions)",
        "frozenset(partitions)",
        is_quick=True,
    ),
    _bug(
        "a new producer does not abort what is open",
        "core.transactions.init_producer_id",
        "if metadata.state is TransactionState.ONGOING:",
        "if False:",
    ),
    _bug(
        "a fence keeps the epoch",
        "core.transactions.end_transaction",
        "PREPARE_ABORT, now_ms)._replace(\n        producer_epoch=metadata.producer_epoch + 1,",
        "PREPARE_ABORT, now_ms)._replace(\n        producer_epoch=metadata.producer_epoch,",
    ),
    _bug(
        "a commit writes markers that abort",
        "coordinator.transaction_coordinator",
        "commits=metadata.state is TransactionState.PREPARE_COMMIT,",
        "commits=False,",
        is_quick=True,
    ),
    _bug(
        "one partition gets no marker",
        "coordinator.markers",
        "_Ending(self, end, missing, is_current, done)",
        "_Ending(self, end, set(sorted(missing)[1:]), is_current, done)",
        is_quick=True,
    ),
    _bug(
        "a marker that failed counts as written",
        "coordinator.markers",
        "if error is ErrorCode.NONE or error in _ENDED_OTHERWISE:",
        "if error is not None:",
    ),
    _bug(
        "a restart forgets ends that are under way",
        "coordinator.transaction_coordinator",
        "            if metadata.state.is_ending:\n                self._end(entry)",
        "            if not metadata:\n                self._end(entry)",
    ),
    _bug(
        "a decision is not written",
        "coordinator.transaction_coordinator",
        "error = partition.append(transactional_id, metadata)",
        "error = ErrorCode.NONE",
        is_quick=True,
    ),
    _bug(
        "a decision does not become the state",
        "coordinator.transaction_coordinator",
        "                entry.metadata = metadata\n",
        "                pass\n",
    ),
    _bug(
        "time aborts nothing",
        "coordinator.transaction_coordinator",
        "if entry.metadata.is_timed_out(self.clock.now_ms()):",
        "if entry.metadata.is_new:",
    ),
    _bug(
        "committed offsets do not count",
        "core.groups.pending_offsets",
        "counting.append((topic, partition, value))",
        "pass",
        is_quick=True,
    ),
    _bug(
        "aborted offsets count",
        "core.groups.offsets",
        "if not commits:",
        "if commits is None:",
    ),
    _bug(
        "a later plain commit does not beat a transaction's",
        "core.groups.offsets",
        "self.pending.supersede(key.topic, key.partition)",
        "pass",
    ),
    _bug(
        "a transaction does not beat the ones that wrote before it",
        "core.groups.pending_offsets",
        "by_producer[earlier] = None",
        "pass",
    ),
    _bug(
        "a marker does not settle the groups",
        "coordinator.group_coordinator",
        "self.tasks[group_id].group.replay_end(end.producer_id, commits=end.commits)",
        "pass",
    ),
    _bug(
        "a restart forgets pending offsets",
        "coordinator.offsets_partition",
        "        yield from restoring.pending_steps(replay.pending())\n",
        "",
    ),
    _bug(
        "records are not verified",
        "apis.verification",
        "        return self.error or ErrorCode.INVALID_TXN_STATE\n",
        "        return ErrorCode.NONE\n",
    ),
    _bug(
        "offsets are not verified",
        "apis.txn_offset_commit",
        "    if not (adds or broker.transactions.settings.verifies_partitions) or _is_open(",
        "    if broker.topics or _is_open(",
    ),
    _bug(
        "offsets of a group that cannot be served at first are not verified",
        "apis.txn_offset_commit",
        "        call.reply(refuse(transactional, call.caller, error))\n        return\n    if not",
        "        broker.groups.submit(call, transactional)\n        return\n    if not",
    ),
]
