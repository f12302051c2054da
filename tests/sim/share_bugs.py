"""Deliberate bugs in share partitions and their state, which their simulation has to see."""

from __future__ import annotations

from tests.sim.bug import Bug

WORLD = "tests.sim --kind share"


def _bug(name: str, module: str, fragment: str, replacement: str, *, is_quick: bool = False) -> Bug:
    return Bug(name, module, fragment, replacement, is_quick, WORLD)


SHARE_BUGS = [
    _bug(
        "a record that a member has can be acquired by another",
        "core.share_partitions.in_flight",
        "        return self.state is RecordState.AVAILABLE and self.undo is None",
        "        return self.state in (RecordState.AVAILABLE, RecordState.ACQUIRED)",
    ),
    _bug(
        "an accepted record is given back",
        "core.share_partitions.record_state",
        "AcknowledgeType.ACCEPT: _S.ACKNOWLEDGED",
        "AcknowledgeType.ACCEPT: _S.AVAILABLE",
    ),
    _bug(
        "a rejected record is given back",
        "core.share_partitions.record_state",
        "AcknowledgeType.REJECT: _S.ARCHIVED",
        "AcknowledgeType.REJECT: _S.AVAILABLE",
    ),
    _bug(
        "a released record is thrown away",
        "core.share_partitions.record_state",
        "AcknowledgeType.RELEASE: _S.AVAILABLE",
        "AcknowledgeType.RELEASE: _S.ARCHIVED",
        is_quick=True,
    ),
    _bug(
        "deliveries are not counted",
        "core.share_partitions.acquire",
        "        run.delivery_count += 1\n",
        "",
    ),
    _bug(
        "a record is delivered once too often",
        "core.share_partitions.acknowledge",
        "if state is RecordState.AVAILABLE and run.delivery_count >= limit:",
        "if state is RecordState.AVAILABLE and run.delivery_count > limit:",
    ),
    _bug(
        "a record is given up a delivery early",
        "core.share_partitions.share_partition",
        "        if run.delivery_count >= settings.delivery_count_limit:\n",
        "        if run.delivery_count >= settings.delivery_count_limit - 1:\n",
    ),
    _bug(
        "anybody may acknowledge parts of a batch",
        "core.share_partitions.acknowledge",
        "            if run.member_id != self._member_id:\n"
        "                return _OFFSET_OF_ANOTHER\n",
        "",
    ),
    _bug(
        "locks never expire",
        "core.share_partitions.locks",
        "            if lock.held:\n                lock.has_expired",
        "            if not lock.held:\n                lock.has_expired",
    ),
    _bug(
        "locks expire early",
        "core.share_partitions.share_partition",
        "AcquisitionLock(batch, run.first, run.last, now_ms + duration_ms)",
        "AcquisitionLock(batch, run.first, run.last, now_ms + duration_ms // 2)",
    ),
    _bug(
        "a lock is not renewed",
        "core.share_partitions.acknowledge",
        "            partition.lock(batch, run, self._now_ms, settings.record_lock_duration_ms)\n",
        "",
    ),
    _bug(
        "what a member has that dies stays locked",
        "coordinator.share_partition_manager",
        "                share_partition.release(member_id, settled)\n",
        "                settled(None)\n",
    ),
    _bug(
        "acknowledgements are not written",
        "coordinator.share_coordinator",
        "        decision = decide(partition.shard, self.clock.now_ms())\n",
        "        decision = decide(partition.shard, self.clock.now_ms())\n"
        "        if partition.shard.state(key) is not None:\n"
        "            decision = decision._replace(record=None)\n",
        is_quick=True,
    ),
    _bug(
        "what is refused is not undone",
        "core.share_partitions.share_partition",
        "            self.roll_back(transition)\n            done(of_persister(error))\n",
        "            done(of_persister(error))\n",
    ),
    _bug(
        "what is done begins too late",
        "core.share_partitions.share_partition",
        "            self.start_offset = max(self.start_offset, last_done + 1)\n",
        "            self.start_offset = max(self.start_offset, last_done + 2)\n",
    ),
    _bug(
        "a gap in what was read back is skipped",
        "core.share_partitions.share_partition",
        "            self._gap_window = GapWindow(self.end_offset, gap_start_offset)\n",
        "            self._gap_window = None\n",
    ),
    _bug(
        "a snapshot forgets what was before it",
        "core.share_state.shard",
        "            batches=combine_batches(state.batches, write.batches, start_offset),\n"
        "            create_ms",
        "            batches=combine_batches((), write.batches, start_offset),\n"
        "            create_ms",
    ),
    _bug(
        "loading takes in snapshots alone",
        "core.share_state.shard",
        "        else:\n            self._replay_update(record)\n",
        "        elif record.key in self._entries and self._entries[record.key].update_count < 2:\n"
        "            self._replay_update(record)\n",
    ),
    _bug(
        "what became available again is not looked for",
        "core.share_partitions.share_partition",
        "                self.finds_next_offset = is_news = True\n",
        "                is_news = True\n",
    ),
    _bug(
        "a rejected record goes to no dead letter queue",
        "core.share_partitions.acknowledge",
        "        elif kind == AcknowledgeType.REJECT and settings.dead_letter_topic:\n",
        "        elif kind == AcknowledgeType.GAP and settings.dead_letter_topic:\n",
    ),
    _bug(
        "what was on its way to the dead letter queue is forgotten with the leader",
        "core.share_partitions.share_partition",
        "            elif state is RecordState.ARCHIVING:\n",
        "            elif state is RecordState.ACQUIRED:\n",
    ),
]
