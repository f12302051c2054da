"""Intended differences that random sequences encounter, with their reasons."""

from __future__ import annotations

import re
from typing import NamedTuple


class Explained(NamedTuple):
    """An intended difference. `kind` is a regular expression on `Difference.kind`.

    `after` is a regular expression on the previous steps with Kafka's answers, and on the step
    itself. With `ends` all later steps are ignored, because the brokers' states differ from then
    on. With `settles` the explanation holds only if all members of the groups then receive
    complete assignments, of equal sizes in both brokers.
    """

    kind: str
    reason: str
    after: str = ""
    ends: bool = True
    settles: bool = False


EXPLAINED = (
    Explained(
        r"(Join|Sync)Group #: 1 \| 2",
        "a parked JoinGroup or SyncGroup that is sent again is answered REBALANCE_IN_PROGRESS at "
        "its first place, where Kafka leaves the client waiting",
    ),
    Explained(
        r"LeaveGroup #: 1 \| 2",
        "a parked SyncGroup of a member that leaves is answered UNKNOWN_MEMBER_ID, where Kafka "
        "leaves the client waiting",
        after=r"'SyncGroup v\d+', \[\(\d+, 'parked'\)",
    ),
    Explained(
        r".*",
        "a JoinGroup with a member id to an empty consumer or streams group is refused, and Kafka "
        "forgets the group at that until it loads the log again",
        after=r"(Consumer|Streams)GroupHeartbeat.*'JoinGroup v\d+', "
        r"\[\(\d+, {'error_code': 'UNKNOWN_MEMBER_ID'",
    ),
    Explained(
        r"(Consumer|Share)Group\w+( [\w.]*assignment(\.topic_partitions[\w.#]*)?: [^;]*;?)+",
        "which partitions `uniform` and the share assignor give to whom follows hash maps of "
        "random topic and member ids; a member whose assignment stays empty is sent none",
        settles=True,
    ),
    Explained(
        r"\w*Describe\w* .*: (Dead \| (Empty|(Preparing|Completing)Rebalance)|"
        r"GROUP_ID_NOT_FOUND \| NONE|Group \S+ not found\. \| Group \S+ is not an? \w+ group\.).*",
        "a group that a refused commit creates is described by Kafka after the next record in the "
        "same partition, and here at once",
        after="OFFSET_METADATA_TOO_LARGE",
        ends=False,
    ),
    Explained(
        r"ConsumerGroup\w+ .*(epoch|assignor_name).*",
        "while as many members name one assignor as another, Kafka's choice depends on who asks, "
        "and heartbeats without news raise the group epoch again and again",
        after=r"'server_assignor': '(range.*'server_assignor': 'uniform|uniform.*"
        r"'server_assignor': 'range)'",
    ),
    Explained(
        r"(Join|Leave)Group (leader: [^;]*; )+members#: \d+ \| \d+",
        "if the leader of a classic group leaves, Kafka's next leader is the first in a hash map "
        "of random member ids, and here the member that joined first",
        after="LeaveGroup",
    ),
    Explained(
        r"(SyncGroup assignment|DescribeGroups groups\.members\.member_assignment): .*",
        "classic members of consumer groups have their topics in the order of hash maps",
    ),
    Explained(
        r"ListOffsets .*offset: \d+ \| -?\d+.*",
        "the record with the largest timestamp was deleted: Kafka still names it",
        after="DeleteRecords",
        ends=False,
    ),
    Explained(
        r"ConsumerGroup \w+ settles: .*",
        "a member whose regular expression matches no topic makes `uniform` in Kafka leave out "
        "partitions of other members until the group epoch changes",
        after=r"'subscribed_topic_regex': {'\$regex': 'nothing'}",
    ),
    Explained(
        r"StreamsGroup\w+( [\w.]*(_tasks|member_epoch)[\w.#]*: [^;]*;?)+",
        "which of equally loaded members gets a task follows hash maps of random member ids",
        settles=True,
    ),
    Explained(
        r"IncrementalAlterConfigs .*Can't .* type is not LIST\..*",
        "of several wrong operations Kafka names one in the order of a hash map",
        ends=False,
    ),
    Explained(
        r"ShareFetch responses(\.partitions)?#: (0 \| 1|1 \| 2)",
        "a share partition whose state cannot be read: its error is in the response if the state "
        "was asked for before other partitions had records",
        ends=False,
    ),
    Explained(
        r"Fetch responses\.partitions\.aborted_transactions#: .*",
        "Kafka lists aborted transactions up to its next index entry, where only those of the "
        "fetched records are listed here",
        ends=False,
    ),
)


def explanation(kind: str, earlier: str) -> Explained | None:
    """Return the explanation of a difference, or None.

    `earlier` has the previous steps with Kafka's answers, and the step itself.
    """
    for one in EXPLAINED:
        if re.fullmatch(one.kind, kind) and re.search(one.after, earlier):
            return one
    return None
