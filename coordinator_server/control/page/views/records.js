// The records of a topic: browse from any offset or time, filter, follow, produce.

import { call, get, path } from "../api.js";
import { bytes, count, h, localTime, time } from "../dom.js";
import { action, checkbox, facts, field, form, link, place, table } from "../ui.js";

const FORMATS = ["auto", "text", "json", "hex", "base64"];
const POSITIONS = [
  ["last", "the last records"],
  ["earliest", "the first records"],
  ["latest", "new records only"],
];
const LIMIT = 100;
const MOST_FOLLOWED = 500;

// The records that a followed view has read so far; `tail` is where the next request goes on.
let followed = { address: null, tail: null, records: [], scanned: 0 };

export const records = {
  title: (parts) => `Records of ${parts[1]}`,
  wants: () => false,
  every: 2_000,

  async load([, topic], query, signal) {
    if (query.record) {
      const [partition, offset] = query.record.split("-");
      const target = path("partitions", topic, partition, "records", offset);
      return { record: await get(target, { format: query.format }, signal) };
    }
    const { record, follow, ...filters } = query;
    const hasStart = filters.offset != null || filters.timestamp_ms != null;
    const first = hasStart ? filters : { position: "last", ...filters };
    if (follow !== "true") {
      return get(path("topics", topic, "records"), { ...first, limit: LIMIT }, signal);
    }
    const address = location.hash;
    const isNew = followed.address !== address;
    const after = isNew ? query.after : followed.tail;
    const next = after
      ? { ...filters, position: null, offset: null, timestamp_ms: null, after }
      : first;
    const page = await get(path("topics", topic, "records"), { ...next, limit: LIMIT }, signal);
    const before = isNew ? [] : followed.records;
    followed = {
      address,
      tail: page.next ?? page.tail,
      records: [...before, ...page.records].slice(-MOST_FOLLOWED),
      scanned: (isNew ? 0 : followed.scanned) + page.scanned,
    };
    return { ...page, records: followed.records, scanned: followed.scanned, next: null };
  },

  show(data, [, topic], query) {
    if (query.record) return oneRecord(topic, data.record, query);
    const newestFirst = [...data.records].sort(
      (left, right) => right.timestamp_ms - left.timestamp_ms || right.offset - left.offset,
    );
    return h(
      "div",
      null,
      h("h1", null, "Records of ", link(["topics", topic], topic)),
      filters(topic, query),
      recordTable(topic, newestFirst, query),
      h(
        "p",
        { class: "buttons" },
        data.next
          ? h(
              "a",
              { class: "button", href: place(["records", topic], { ...query, after: data.next }) },
              "Go on",
            )
          : null,
        h("span", { class: "note" }, `${count(data.scanned)} records were looked at.`),
      ),
      produceForm(topic),
      deleteForm(topic, query),
    );
  },
};

function recordTable(topic, shown, query) {
  const columns = [
    [
      "Offset",
      (row) =>
        h(
          "a",
          {
            href: place(["records", topic], { record: placeOf(row), format: query.format ?? null }),
          },
          placeOf(row),
        ),
    ],
    ["Time", (row) => time(row.timestamp_ms, true)],
    ["Key", (row) => content(row.key)],
    ["Value", (row) => content(row.value)],
    [
      "Headers",
      (row) =>
        row.headers.map((header) => h("div", null, header.name, ": ", content(header.value))),
    ],
    ["Size", (row) => bytes(row.key.size_bytes + row.value.size_bytes), "number"],
  ];
  return table("Records, the newest first; the offset is PARTITION-OFFSET", columns, shown, {
    key: (row) => `record ${placeOf(row)}`,
    empty: "no record matches",
  });
}

const placeOf = (record) => `${record.partition}-${record.offset}`;

/** Return a key, a value or a header as text, with what the text does not show. */
function content(part) {
  const { format, schema_id: schema, size_bytes: size, decoded } = part;
  if (format === "null") return h("i", null, "null");
  const { text, is_cut: isCut } = isDecoded(part) ? decoded : part;
  const notes = [
    isDecoded(part) || format === "text" || format === "json" ? null : format,
    schema === null || schema === undefined ? null : schemaOf(part),
    isCut ? `cut, of ${bytes(size)}` : null,
    decoded?.error ? `not decoded: ${decoded.error}` : null,
  ].filter(Boolean);
  return [
    h(
      "code",
      { class: "content", dir: "auto" },
      text === "" ? "(empty)" : text,
      isCut ? " …" : null,
    ),
    notes.length ? h("small", null, ` ${notes.join(", ")}`) : null,
  ];
}

const isDecoded = ({ decoded }) => Boolean(decoded) && decoded.error === null;

/** Return the schema of a content in words, such as "Avro schema 7, shop.Order". */
function schemaOf({ schema_id: schema, decoded }) {
  const kind = { AVRO: "Avro ", PROTOBUF: "Protobuf ", JSON: "JSON " }[decoded?.schema_type] ?? "";
  return `${kind}schema ${schema}${decoded?.name ? `, ${decoded.name}` : ""}`;
}

function oneRecord(topic, record, query) {
  const change = (event) =>
    location.replace(place(["records", topic], { ...query, format: event.target.value }));
  return h(
    "div",
    null,
    h("h1", null, "Record ", placeOf(record), " of ", link(["topics", topic], topic)),
    h(
      "form",
      { class: "filters", onsubmit: (event) => event.preventDefault() },
      field({
        name: "format",
        label: "Shown as",
        options: FORMATS,
        value: query.format,
        onchange: change,
      }),
    ),
    facts(
      ["Partition", count(record.partition)],
      ["Offset", count(record.offset)],
      ["Timestamp", time(record.timestamp_ms, true), ` (${record.timestamp_type})`],
      ["Producer id", record.producer_id === null ? "none" : String(record.producer_id)],
      ["Transactional", record.is_transactional ? "yes" : "no"],
    ),
    h("h2", null, "Key"),
    whole(record.key),
    h("h2", null, "Value"),
    whole(record.value),
    h("h2", null, "Headers"),
    table(
      "Headers",
      [
        ["Name", (row) => row.name],
        ["Value", (row) => content(row.value)],
      ],
      record.headers,
    ),
  );
}

function whole(part) {
  if (part.format === "null") return h("p", null, h("i", null, "null"));
  const { decoded } = part;
  const { text, is_cut: isCut } = isDecoded(part) ? decoded : part;
  const format = isDecoded(part) ? "decoded" : part.format;
  const schema =
    part.schema_id === null || part.schema_id === undefined ? "" : `, ${schemaOf(part)}`;
  const cut = isCut ? ", only the first bytes are shown" : "";
  return [
    h("p", { class: "note" }, `${bytes(part.size_bytes)}, ${format}${schema}${cut}`),
    decoded?.error ? h("p", { class: "note" }, `Not decoded: ${decoded.error}`) : null,
    h(
      "pre",
      { class: "content", dir: "auto", tabindex: "0" },
      isDecoded(part) || part.format === "json" ? indented(text, isCut) : text,
    ),
  ];
}

/**
 * Return JSON with line breaks; a text that is cut or no JSON stays as it is. The numbers stay as
 * they are written: JSON.parse would round large ones.
 */
function indented(text, isCut) {
  if (isCut) return text;
  try {
    JSON.parse(text);
  } catch {
    return text;
  }
  let depth = 0;
  const parts = text.matchAll(/"(?:[^"\\]|\\.)*"|[{[]\s*[}\]]|[{}[\],:]|[^\s{}[\],:"]+/g);
  return Array.from(parts, ([part]) => {
    if (part === "{" || part === "[") return part + newLine((depth += 1));
    if (part === "}" || part === "]") return newLine((depth -= 1)) + part;
    if (part === ",") return part + newLine(depth);
    return part === ":" ? ": " : part;
  }).join("");
}

const newLine = (depth) => `\n${"  ".repeat(depth)}`;

function filters(topic, query) {
  const onsubmit = (event) => {
    event.preventDefault();
    const values = Object.fromEntries(new FormData(event.currentTarget));
    const at = values.time ? new Date(values.time).getTime() : null;
    location.hash = place(["records", topic], {
      partition: values.partition,
      position: values.offset || at !== null ? null : values.position,
      offset: values.offset,
      timestamp_ms: at,
      key: values.key,
      value: values.value,
      header: values.header,
      format: values.format === "auto" ? null : values.format,
      follow: values.follow ? "true" : null,
    });
  };
  return h(
    "form",
    { class: "filters", onsubmit },
    field({
      name: "position",
      label: "Start at",
      options: POSITIONS,
      value: query.position ?? "last",
    }),
    field({ name: "offset", label: "or at offset", type: "number", value: query.offset ?? "" }),
    field({
      name: "time",
      label: "or at time",
      type: "datetime-local",
      value: localTime(query.timestamp_ms),
    }),
    field({ name: "partition", label: "Partition", type: "number", value: query.partition ?? "" }),
    field({ name: "key", label: "Key contains", value: query.key ?? "" }),
    field({ name: "value", label: "Value contains", value: query.value ?? "" }),
    field({ name: "header", label: "Has the header", value: query.header ?? "" }),
    field({ name: "format", label: "Shown as", options: FORMATS, value: query.format }),
    checkbox("follow new records", { name: "follow", checked: query.follow === "true" }),
    h("button", { type: "submit" }, "Show"),
  );
}

function produceForm(topic) {
  const run = async ({ key, value, partition, format, headers }) => {
    const record = {
      key: key === "" ? null : parsed(key, format),
      value: parsed(value, format),
      headers: headers
        .split("\n")
        .filter(Boolean)
        .map((line) => [line.slice(0, line.indexOf("=")), line.slice(line.indexOf("=") + 1)])
        .map(([name, text]) => [name, format === "json" ? text : parsed(text, format)]),
    };
    if (partition !== "") record.partition = Number(partition);
    const target = path("topics", topic, "records");
    const answer = await call("POST", target, { body: { format, records: [record] } });
    return `Written at ${placeOf(answer.records[0])}.`;
  };
  return form(
    "Produce a record",
    [
      { name: "key", label: "Key", hint: "empty: null" },
      { name: "value", label: "Value", type: "lines" },
      { name: "headers", label: "Headers", type: "lines", hint: "one NAME=VALUE on each line" },
      { name: "format", label: "Written as", options: ["text", "json", "hex", "base64"] },
      { name: "partition", label: "Partition", type: "number", hint: "empty: by the key" },
    ],
    run,
    { button: "Produce", needs: ["WRITE", "TOPIC"] },
  );
}

function parsed(text, format) {
  if (format !== "json") return text;
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Error(`the text is not JSON: ${error.message}`);
  }
}

function deleteForm(topic, { partition }) {
  if (partition === undefined) return null;
  return action(
    `Delete all records of partition ${partition}`,
    `Delete all records of ${topic}-${partition}?`,
    () =>
      call("DELETE", path("partitions", topic, partition, "records"), { query: { before: -1 } }),
    { isDangerous: true, needs: ["DELETE", "TOPIC"] },
  );
}
