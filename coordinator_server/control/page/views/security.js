// ACLs and quotas.

import { call, get, getIfAllowed } from "../api.js";
import { h } from "../dom.js";
import {
  action,
  ALTER_CLUSTER,
  ALTER_CONFIGS,
  changeColumn,
  cluster,
  facts,
  form,
  lines,
  openness,
  pairs,
  table,
} from "../ui.js";

const OPERATIONS = [
  "READ",
  "WRITE",
  "CREATE",
  "DELETE",
  "ALTER",
  "DESCRIBE",
  "DESCRIBE_CONFIGS",
  "ALTER_CONFIGS",
  "ALL",
];
const RESOURCES = ["TOPIC", "GROUP", "CLUSTER", "TRANSACTIONAL_ID", "DELEGATION_TOKEN", "USER"];

export const security = {
  title: () => "Security",
  wants: () => false,

  async load(parts, query, signal) {
    const quotas = await get("/quotas", null, signal);
    const acls = cluster.current.security.has_authorizer ? await getIfAllowed("/acls", null, signal) : null;
    return { quotas: quotas.quotas, acls: acls?.acls };
  },

  show({ quotas, acls }) {
    return h(
      "div",
      null,
      h("h1", null, "Security"),
      facts(
        ["Authorizer", cluster.current.security.has_authorizer ? "on: ACLs are enforced" : "off: every client may do everything"],
        ["You are", cluster.current.security.user ?? "not logged in: nothing is hidden"],
      ),
      openness(),
      acls ? aclPart(acls) : null,
      h("h2", null, "Quotas"),
      table("Quotas", QUOTAS, quotas, {
        isTitled: true,
        key: (row) => JSON.stringify(row.entity),
      }),
      form(
        "Change quotas",
        [
          {
            name: "entity",
            label: "Entity",
            type: "lines",
            hint: "user=NAME, client-id=NAME or ip=NAME on each line; without =NAME the default",
          },
          { name: "set", label: "Set", type: "lines", hint: "one QUOTA=NUMBER on each line" },
          { name: "unset", label: "Remove", type: "lines", hint: "one quota on each line" },
        ],
        changeQuotas,
        { needs: ALTER_CONFIGS },
      ),
    );
  },
};

function changeQuotas({ entity, set, unset }) {
  const types = lines(entity).map((line) => [line.split("=")[0], line.split("=")[1] ?? null]);
  const numbers = Object.entries(pairs(set)).map(([name, value]) => [name, Number(value)]);
  const body = { entity: Object.fromEntries(types), set: Object.fromEntries(numbers) };
  return call("PATCH", "/quotas", { body: { ...body, unset: lines(unset) } });
}

const QUOTAS = [
  [
    "Entity",
    (row) =>
      Object.entries(row.entity)
        .map(([type, name]) => `${type} ${name ?? "(default)"}`)
        .join(", "),
  ],
  [
    "Quotas",
    (row) =>
      Object.entries(row.quotas)
        .map(([name, value]) => `${name}=${value}`)
        .join(", "),
  ],
];

function aclPart(acls) {
  const columns = [
    ["Principal", (row) => row.principal],
    ["Permission", (row) => row.permission],
    ["Operation", (row) => row.operation],
    ["Resource", (row) => `${row.resource_type} ${row.resource_name}`],
    ["Pattern", (row) => row.pattern_type],
    ["Host", (row) => row.host],
    changeColumn((row) =>
      action(
        "Delete",
        `Delete this ACL of ${row.principal}?`,
        () => call("POST", "/acls/delete", { body: row }),
        { isDangerous: true },
      ),
      ALTER_CLUSTER,
    ),
  ];
  return [
    h("h2", null, "ACLs"),
    table("ACLs", columns, acls, { key: (row) => JSON.stringify(row) }),
    form(
      "Add an ACL",
      [
        { name: "principal", label: "Principal", value: "User:" },
        { name: "permission", label: "Permission", options: ["ALLOW", "DENY"] },
        { name: "operation", label: "Operation", options: OPERATIONS },
        { name: "resource_type", label: "Resource type", options: RESOURCES },
        { name: "resource_name", label: "Resource name", hint: "kafka-cluster for the cluster" },
        { name: "pattern_type", label: "Pattern", options: ["LITERAL", "PREFIXED"] },
        { name: "host", label: "Host", value: "*" },
      ],
      (acl) => call("POST", "/acls", { body: { acls: [acl] } }),
      { button: "Add", needs: ALTER_CLUSTER },
    ),
  ];
}
