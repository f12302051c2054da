// The timeline of one group: who had which partition when, rebalances, and the lag beneath.
//
// `spans(rebalances, now)` turns accounts of rebalances into spans; `draw` makes the picture.

import { clockTime, count, duration, s } from "./dom.js";

const LEFT = 150;
const RIGHT = 12;
const ROW = 18;
const TOP = 22;
const LAG_HEIGHT = 70;
const MOST_ROWS = 60;
const COLORS = 10;
const TICK_DISTANCE = 75;
const LABEL = 64;

const partitionName = (topic, index) => `${topic}-${index}`;

/** Return the name of a member in an account: the instance id, otherwise the client id. */
export function memberName(member, members) {
  const name = member.instance ?? member.client_id;
  const isShared =
    members.filter((entry) => (entry.instance ?? entry.client_id) === name).length > 1;
  return isShared ? `${name} ${member.member.replace(`${name}-`, "").slice(0, 8)}` : name;
}

// A static member that restarts gets another member id and keeps its partitions.
const identity = (member) => member.instance ?? member.member;

/** Return who had which partition when: {partition -> [{member, name, from, to}]}.
 *
 * `member` is the instance id of a static member, otherwise the member id.
 * `rebalances` are those of the API, the oldest first. A span ends when another account gives the
 * partition to another member, and at `now` for the current owner. Members keep partitions until
 * the rebalance has ended, as with eager assignors the last owner before it.
 */
export function spans(rebalances, now) {
  const rows = new Map();
  const open = new Map();
  const close = (partition, at) => {
    const span = open.get(partition);
    if (!span) return;
    span.to = at;
    open.delete(partition);
  };
  const begin = (partition, member, name, from) => {
    const span = { member, name, from, to: now };
    if (!rows.has(partition)) rows.set(partition, []);
    rows.get(partition).push(span);
    open.set(partition, span);
  };
  rebalances.forEach(({ account }, index) => {
    const members = account.members ?? [];
    if (index === 0) {
      for (const member of members) {
        for (const partition of listed(member.partitions_before)) {
          begin(partition, identity(member), memberName(member, members), -Infinity);
        }
      }
    }
    if (!members.length) {
      if (account.outcome === "empty" || account.outcome === "dead") {
        for (const partition of [...open.keys()]) close(partition, account.ended_ms);
      }
      return;
    }
    const owners = new Map();
    for (const member of members) {
      for (const partition of listed(member.partitions)) owners.set(partition, member);
    }
    for (const [partition, span] of [...open]) {
      const owner = owners.get(partition);
      if (!owner || identity(owner) !== span.member) close(partition, account.ended_ms);
    }
    for (const [partition, member] of owners) {
      if (!open.has(partition)) {
        begin(partition, identity(member), memberName(member, members), account.ended_ms);
      }
    }
  });
  return rows;
}

function listed(partitions) {
  return Object.entries(partitions ?? {}).flatMap(([topic, indexes]) =>
    indexes.map((index) => partitionName(topic, index)),
  );
}

const BY_NUMBER = new Intl.Collator("en", { numeric: true });

/** Return a stable number of a color for each member, in the order of appearance. */
export function colors(rows) {
  const numbers = new Map();
  for (const list of rows.values()) {
    for (const span of list) {
      if (!numbers.has(span.member)) numbers.set(span.member, numbers.size % COLORS);
    }
  }
  return numbers;
}

/** Return the picture of the time from `from` to `to`, `width` pixels wide.
 *
 * `lag` are samples {at_ms, lag}, the oldest first, and `now` is the broker's time; `at` is the selected rebalance's end; `onSelect`
 * gets the end of a rebalance that is clicked.
 */
export function draw({ rebalances, rows, lag, from, to, now, width, at, onSelect }) {
  const names = [...rows.keys()].sort(BY_NUMBER.compare).slice(0, MOST_ROWS);
  const plot = Math.max(width - LEFT - RIGHT, 50);
  const x = (ms) =>
    LEFT + (Math.min(Math.max(ms, from), to) - from) * (plot / Math.max(to - from, 1));
  const lagTop = TOP + names.length * ROW + 14;
  const height = lagTop + LAG_HEIGHT + 20;
  const numbers = colors(rows);
  const shown = rebalances.filter((entry) => entry.ended_ms >= from && entry.started_ms <= to);
  return s(
    "svg",
    {
      class: "timeline",
      viewBox: `0 0 ${width} ${height}`,
      width,
      height,
      role: "img",
      "aria-label": "Partitions by owner over time; the table below has the same",
    },
    ticks(from, to, x, height),
    shown.map((entry) =>
      s(
        "g",
        {
          class: entry.ended_ms === at ? "rebalance selected" : "rebalance",
          onclick: () => onSelect(entry.ended_ms),
        },
        s(
          "title",
          null,
          `${clockTime(entry.started_ms, true)}: ${entry.account.trigger}, ${duration(entry.ended_ms - entry.started_ms)}`,
        ),
        s("rect", {
          x: x(entry.started_ms) - 2,
          y: TOP,
          width: Math.max(x(entry.ended_ms) - x(entry.started_ms), 1) + 4,
          height: lagTop + LAG_HEIGHT - TOP,
        }),
      ),
    ),
    names.map((name, row) => [
      s(
        "text",
        { class: "label", x: LEFT - 8, y: TOP + row * ROW + 13, "text-anchor": "end" },
        short(name),
      ),
      rows
        .get(name)
        .filter((span) => span.to >= from && span.from <= to)
        .map((span) => bar(span, x, TOP + row * ROW, numbers.get(span.member))),
    ]),
    lagChart(lag, from, to, now, x, lagTop),
  );
}

const short = (name) => (name.length > 22 ? `${name.slice(0, 10)}…${name.slice(-11)}` : name);

function bar(span, x, y, color) {
  const left = x(span.from);
  const wide = Math.max(x(span.to) - left, 1);
  const fits = Math.floor((wide - 8) / 7);
  const text =
    span.name.length <= fits ? span.name : fits > 3 ? `${span.name.slice(0, fits - 1)}…` : "";
  const who = span.member === span.name ? span.name : `${span.name} (${span.member})`;
  return s(
    "g",
    { class: `span color${color}` },
    s("title", null, `${who} until ${clockTime(span.to)}`),
    s("rect", { x: left, y: y + 1, width: wide, height: ROW - 3, rx: 2 }),
    text ? s("text", { x: left + 4, y: y + 12 }, text) : null,
  );
}

function ticks(from, to, x, height) {
  const steps = [
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21_600, 43_200, 86_400, 604_800,
  ];
  const most = Math.max((x(to) - x(from)) / TICK_DISTANCE, 1);
  const step =
    1000 * (steps.find((seconds) => (to - from) / (seconds * 1000) <= most) ?? 2_592_000);
  const marks = [];
  const isLast = (ms) => x(to) + RIGHT - x(ms) < LABEL / 2;
  for (let ms = Math.ceil(from / step) * step; ms <= to; ms += step) {
    marks.push(
      s("line", { class: "tick", x1: x(ms), x2: x(ms), y1: TOP, y2: height - 18 }),
      s(
        "text",
        // Half of a label in the middle of the last tick would be outside of the picture.
        { class: "label", x: x(ms), y: 14, "text-anchor": isLast(ms) ? "end" : "middle" },
        clockTime(ms).split(" ").pop(),
      ),
    );
  }
  return marks;
}

/** Return the samples as steps within a time: {from, to, lag}; unknown lag leaves a gap. */
export function lagSteps(lag, from, to, now) {
  return lag
    .map((sample, index) => ({
      from: Math.max(sample.at_ms, from),
      to: Math.min(lag[index + 1]?.at_ms ?? now, to),
      lag: sample.lag,
    }))
    .filter((step) => step.from <= step.to && step.lag !== null);
}

function lagChart(lag, from, to, now, x, top) {
  const steps = lagSteps(lag, from, to, now);
  const most = Math.max(1, ...steps.map((step) => step.lag));
  const y = (value) => top + LAG_HEIGHT - (value / most) * (LAG_HEIGHT - 12);
  const lines = steps.map((step, index) => {
    const isJoined = index && steps[index - 1].to === step.from;
    return `${isJoined ? "L" : "M"}${x(step.from)},${y(step.lag)}H${x(step.to)}`;
  });
  const base = top + LAG_HEIGHT;
  const last = steps.at(-1);
  return [
    s("line", { class: "axis", x1: LEFT, x2: x(to), y1: base, y2: base }),
    s(
      "text",
      { class: "label", x: LEFT - 8, y: top + 12, "text-anchor": "end" },
      `${count(most)} ${most === 1 ? "record" : "records"}`,
    ),
    s("text", { class: "label", x: LEFT - 8, y: base, "text-anchor": "end" }, "lag 0"),
    steps.length ? s("path", { class: "lag", d: lines.join("") }) : null,
    last
      ? s(
          "text",
          { class: "label", x: x(to), y: base + 14, "text-anchor": "end" },
          `lag ${count(last.lag)} at ${clockTime(last.to)}`,
        )
      : s("text", { class: "label", x: LEFT, y: base + 14 }, "the lag of this time is not known"),
  ];
}
