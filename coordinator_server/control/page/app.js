// The page: navigation, refreshes, and the view for each address.
//
// A view is {title(parts), load(parts, query, signal), show(data, parts, query)} and may have
// `every` (ms between refreshes), `first` (number of rows that are loaded and shown first) and `wants(event, parts)` (whether an event needs a refresh). Its
// address is the part behind `#`, so that each state of the page has a link.

import { ApiError, follow, get, token } from "./api.js";
import { count, h, morph, visible } from "./dom.js";
import {
  cluster,
  DESCRIBE_CLUSTER,
  DESCRIBE_CONFIGS,
  link,
  may,
  place,
  say,
} from "./ui.js";
import { clients } from "./views/clients.js";
import { clock } from "./views/clock.js";
import { connect } from "./views/connect.js";
import { group } from "./views/group.js";
import { groups } from "./views/groups.js";
import { login } from "./views/login.js";
import { overview } from "./views/overview.js";
import { remember } from "./views/recent.js";
import { records } from "./views/records.js";
import { security } from "./views/security.js";
import { settings } from "./views/settings.js";
import { topic, topics } from "./views/topics.js";
import { transaction, transactions } from "./views/transactions.js";

const VIEWS = {
  "": { list: overview, name: "Overview" },
  groups: { list: groups, detail: group, name: "Groups" },
  topics: { list: topics, detail: topic, name: "Topics" },
  records: { detail: records },
  transactions: { list: transactions, detail: transaction, name: "Transactions" },
  connections: { list: clients, name: "Connections", needs: DESCRIBE_CLUSTER },
  clock: { list: clock, name: "Clock", needs: DESCRIBE_CLUSTER },
  settings: { list: settings, name: "Settings", needs: DESCRIBE_CONFIGS },
  security: { list: security, name: "Security", needs: DESCRIBE_CONFIGS },
  connect: { list: connect, name: "Connect", needs: DESCRIBE_CLUSTER },
  login: { list: login },
};

const DEFAULT_EVERY_MS = 5_000;
const EVENT_DELAY_MS = 200;

let shown = { address: null, abort: null, timer: null, isLoading: false, isAgain: false };
let isConnected = false;

function decoded(segment) {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment; // a link that was not written by this page
  }
}

function parse(address) {
  const [route, query] = address.replace(/^#?\/?/, "").split("?");
  const parts = route.split("/").filter(Boolean).map(decoded);
  return { parts, query: Object.fromEntries(new URLSearchParams(query ?? "")) };
}

function viewOf(parts) {
  const entry = VIEWS[parts[0] ?? ""];
  return entry && (parts.length > 1 ? entry.detail : entry.list);
}

function showHeader() {
  const { parts } = parse(location.hash);
  const items = Object.entries(VIEWS)
    .filter(([, entry]) => entry.name && may(entry.needs))
    .map(([name, entry]) => {
      const isCurrent = (parts[0] ?? "") === name || (parts[0] === "records" && name === "topics");
      const current = isCurrent ? "page" : null;
      const href = place(name ? [name] : []);
      return h("li", null, h("a", { href, "aria-current": current }, entry.name));
    });
  const now = cluster.current;
  const text = isConnected ? "live" : "not connected";
  const tree = h(
    "div",
    null,
    h("a", { class: "brand", href: "#/" }, "coordinator-server"),
    h("nav", { "aria-label": "Views" }, h("ul", null, items)),
    h(
      "p",
      { class: "cluster" },
      h("span", { class: isConnected ? "state good" : "state bad" }, text),
      now ? [" ", brokersRun(now)] : null,
      cluster.isFrozen ? [" ", h("span", { class: "state moving" }, "clock is frozen")] : null,
      now?.security.is_read_only ? [" ", h("span", { class: "state idle" }, "read-only")] : null,
      now?.security.user ? ` as ${now.security.user}` : null,
      token.get()
        ? [" ", h("button", { type: "button", class: "small", onclick: logOut }, "Log out")]
        : null,
    ),
  );
  morph(document.getElementById("header"), tree);
}

function brokersRun({ running, brokers }) {
  const text = `${count(running)} of ${count(brokers)} brokers run`;
  return running ? text : h("span", { class: "state bad" }, text);
}

function logOut() {
  token.clear();
  cluster.rights = null;
  location.hash = "#/login";
}

const RESOURCES = {
  topics: "topic",
  records: "topic",
  groups: "group",
  transactions: "transactional_id",
};

// Read what the user may do on the cluster and on the resource of a view; null: everything.
async function readRights([view, name], signal) {
  const { user, has_authorizer: hasAuthorizer } = cluster.current.security;
  const query = RESOURCES[view] && name !== undefined ? { [RESOURCES[view]]: name } : null;
  cluster.rights = user && hasAuthorizer ? await get("/permissions", query, signal) : null;
}

async function refresh() {
  const { address } = shown;
  if (shown.isLoading) {
    shown.isAgain = true;
    return;
  }
  shown.isLoading = true;
  shown.isAgain = false;
  clearTimeout(shown.timer);
  const run = shown;
  const { parts, query } = parse(address);
  const view = viewOf(parts);
  let tree;
  try {
    if (view !== login) {
      cluster.current = await get("/cluster", null, run.abort.signal);
      cluster.readAtMs = Date.now();
    }
    const isPart = view.first && run.isFirst !== false && !run.hasPart;
    const [data] = await Promise.all([
      view.load(parts, query, run.abort.signal, isPart ? view.first : undefined),
      view === login ? null : readRights(parts, run.abort.signal),
    ]);
    if (run !== shown) return;
    tree = view.show(data, parts, query);
    run.isAgain ||= isPart;
    run.hasPart = isPart;
  } catch (error) {
    if (run !== shown || error.name === "AbortError") return;
    if (error.status === 401) {
      location.hash = place(["login"], { then: address });
      return;
    }
    if (!(error instanceof ApiError)) console.error(error);
    const isExplained = error.status === 503 && isDown();
    const text = isExplained ? null : problem(error);
    tree = h("div", null, h("h1", null, view.title(parts)), text);
  } finally {
    run.isLoading = false;
  }
  if (isDown() && view !== login) tree.prepend(noBroker());
  const main = document.getElementById("main");
  const isFirst = run.isFirst !== false;
  if (isFirst) main.replaceChildren();
  morph(main, tree);
  showHeader();
  if (isFirst) {
    run.isFirst = false;
    if (run.isNavigation) main.focus({ preventScroll: false });
  }
  const delayMs = run.hasPart ? 0 : EVENT_DELAY_MS;
  run.timer = setTimeout(refresh, run.isAgain ? delayMs : (view.every ?? DEFAULT_EVERY_MS));
}

const isDown = () => cluster.current?.running === 0;

function noBroker() {
  return h(
    "p",
    { class: "note error", role: "alert", "data-key": "no broker" },
    "No broker runs: clients cannot connect, and nothing is known of groups and transactions. ",
    link([], "Start a broker"),
  );
}

function problem(error) {
  const isGone = error.status === 404;
  return h("p", { class: isGone ? "note" : "note error", role: "alert" }, error.message);
}

function navigate(isNavigation = true) {
  const address = location.hash || "#/";
  const { parts, query } = parse(address);
  const view = viewOf(parts);
  shown.abort?.abort();
  clearTimeout(shown.timer);
  const isSame = shown.parts?.join("\n") === parts.join("\n") && view === shown.view;
  shown = {
    address,
    parts,
    query,
    view,
    abort: new AbortController(),
    timer: null,
    isFirst: !isSame,
    isNavigation,
  };
  if (!view) {
    const text = h("p", null, "There is no such view. ", link([], "Overview"));
    morph(document.getElementById("main"), h("div", null, h("h1", null, "Not found"), text));
    showHeader();
    return;
  }
  document.title = visible(`${view.title(parts)} – coordinator-server`);
  showHeader();
  refresh();
}

let eventTimer = null;

function onEvent(event) {
  remember(event);
  if (event.type === "clock") cluster.isFrozen = event.data.frozen;
  if (!shown.view) return;
  const wants = shown.view.wants;
  if (event.type !== "reset" && wants && !wants(event, shown.parts)) return;
  if (eventTimer) return;
  eventTimer = setTimeout(() => {
    eventTimer = null;
    refresh();
  }, EVENT_DELAY_MS);
}

function onState(isLive) {
  if (isConnected && !isLive) say("The connection to the broker is lost.", true);
  const isBack = !isConnected && isLive;
  isConnected = isLive;
  showHeader();
  if (isBack && shown.view) refresh();
}

async function start() {
  window.addEventListener("hashchange", () => navigate());
  window.addEventListener("changed", () => {
    shown.isAgain = true;
    refresh();
  });
  navigate(false);
  get("/clock").then(
    (answer) => {
      cluster.isFrozen = answer.frozen;
      showHeader();
    },
    () => {},
  );
  follow(onEvent, onState);
}

start();
