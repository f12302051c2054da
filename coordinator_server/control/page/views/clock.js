// The broker's clock, and its controls.

import { call, get } from "../api.js";
import { duration, h, time } from "../dom.js";
import { action, ALTER_CLUSTER, cluster, facts, form, may } from "../ui.js";

const UNITS = { s: 1, min: 60, h: 3600, d: 86_400 };
const STEPS = [
  [1, "s"],
  [10, "s"],
  [1, "min"],
  [5, "min"],
  [1, "h"],
  [7, "d"],
];

const advance = (seconds) => call("POST", "/clock/advance", { query: { seconds } });

export const clock = {
  title: () => "Clock",
  every: 1_000,
  wants: (event) => event.type === "clock",

  load: (parts, query, signal) => get("/clock", null, signal),

  show({ now_ms: nowMs, frozen, offset_ms: offsetMs }) {
    cluster.isFrozen = frozen;
    const difference = offsetMs ? duration(Math.abs(offsetMs)) : "none";
    const side = offsetMs > 0 ? " ahead" : offsetMs < 0 ? " behind" : "";
    return h(
      "div",
      null,
      h("h1", null, "Clock"),
      facts(
        ["Broker’s time", time(nowMs, true)],
        ["State", frozen ? "frozen: no timer fires" : "running"],
        ["Difference to the machine’s time", `${difference}${side}`],
      ),
      h(
        "p",
        { class: "buttons" },
        may(ALTER_CLUSTER)
          ? [
              frozen
                ? action("Resume", null, () => call("POST", "/clock/resume"))
                : action("Freeze", null, () => call("POST", "/clock/freeze")),
              STEPS.map(([number, unit]) =>
                action(`Advance ${number} ${unit}`, null, () => advance(number * UNITS[unit])),
              ),
            ]
          : null,
      ),
      form(
        may(ALTER_CLUSTER) ? "Advance by another time" : "Freeze or advance the clock",
        [
          { name: "number", label: "Number", type: "number", value: "30" },
          { name: "unit", label: "Unit", options: Object.keys(UNITS), value: "s" },
        ],
        ({ number, unit }) => advance(Number(number) * UNITS[unit]),
        { button: "Advance", needs: ALTER_CLUSTER },
      ),
      h(
        "p",
        { class: "note" },
        "Sessions, rebalance timeouts, retention and expiry follow this clock. Clients have clocks of " +
          "their own: a large step looks to the broker as if they had been silent all the time.",
      ),
    );
  },
};
