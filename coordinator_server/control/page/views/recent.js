// The latest events, as a list.

import { count, h, time } from "../dom.js";
import { link } from "../ui.js";

const MOST = 30;
const events = [];

/** Remember an event for the list. */
export function remember(event) {
  if (event.type === "connection" || event.type === "reset") return;
  events.unshift(event);
  events.length = Math.min(events.length, MOST);
}

const WORDS = {
  group: ({ group, state, members }) => [
    toGroup(group),
    ` is ${state} with ${count(members)} members`,
  ],
  rebalance: (data) => [toGroup(data.group), `: ${data.trigger}, generation ${data.generation}`],
  topic: ({ topic, partitions }) => [
    link(["topics", topic], topic),
    partitions ? ` has ${count(partitions)} partitions` : " was deleted",
  ],
  transaction: (data) => [
    link(["transactions", data.transactional_id], data.transactional_id),
    ` is ${data.state}`,
  ],
  broker: ({ id, state }) => [`Broker ${id} is ${state}`],
  clock: ({ frozen }) => [frozen ? "The clock is frozen" : "The clock was changed"],
};

const toGroup = (group) => link(["groups", group], group);

/** Return the list of the latest events since the page was opened. */
export function recent() {
  const items = events.map((event) =>
    h(
      "li",
      { "data-key": `event ${event.id}` },
      time(event.at_ms),
      " ",
      WORDS[event.type]?.(event.data),
    ),
  );
  return [
    h("h2", null, "Latest changes"),
    items.length
      ? h("ol", { class: "events" }, items)
      : h("p", { class: "empty" }, "Nothing has changed since this page was opened."),
  ];
}
