// How to connect: snippets for seven clients, with this broker's address and security.

import { get } from "../api.js";
import { h } from "../dom.js";
import { copyButton, place } from "../ui.js";

const quoted = (text) => JSON.stringify(text);

const hasSasl = ({ protocol }) => protocol.startsWith("SASL");
const hasTls = ({ protocol }) => protocol.endsWith("SSL");

/** Return the librdkafka settings of a listener as pairs. */
function librdkafka(listener) {
  const settings = [["bootstrap.servers", listener.address]];
  if (listener.protocol !== "PLAINTEXT") settings.push(["security.protocol", listener.protocol]);
  if (hasTls(listener)) settings.push(["ssl.ca.location", "ca.pem"]);
  if (hasSasl(listener)) {
    settings.push(["sasl.mechanism", mechanism(listener)]);
    settings.push(["sasl.username", "USER"], ["sasl.password", "PASSWORD"]);
  }
  return settings;
}

const KNOWN = ["SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN"];
const mechanism = ({ mechanisms }) =>
  KNOWN.find((name) => mechanisms.includes(name)) ?? mechanisms[0];

function python(listener) {
  const options = [`bootstrap_servers=${quoted(listener.address)}`];
  if (listener.protocol !== "PLAINTEXT")
    options.push(`security_protocol=${quoted(listener.protocol)}`);
  if (hasTls(listener)) options.push('ssl_cafile="ca.pem"');
  if (hasSasl(listener)) {
    options.push(`sasl_mechanism=${quoted(mechanism(listener))}`);
    options.push('sasl_plain_username="USER"', 'sasl_plain_password="PASSWORD"');
  }
  return options.join(",\n    ");
}

function aiokafka(listener) {
  const text = python(listener).replace('ssl_cafile="ca.pem"', "ssl_context=context");
  const context = hasTls(listener)
    ? 'import ssl\n\ncontext = ssl.create_default_context(cafile="ca.pem")\n'
    : "";
  return `import asyncio
${context}
from aiokafka import AIOKafkaConsumer


async def main():
    async with AIOKafkaConsumer(
        "orders",
        ${text.replaceAll("\n", "\n    ")},
        group_id="app",
        auto_offset_reset="earliest",
    ) as consumer:
        async for record in consumer:
            print(record.value)


asyncio.run(main())
`;
}

function properties(listener) {
  const lines = [`bootstrap.servers=${listener.address}`];
  if (listener.protocol !== "PLAINTEXT") lines.push(`security.protocol=${listener.protocol}`);
  if (hasTls(listener)) lines.push("ssl.truststore.type=PEM", "ssl.truststore.location=ca.pem");
  if (hasSasl(listener)) {
    const name = mechanism(listener);
    const module = name.startsWith("SCRAM") ? "scram.ScramLoginModule" : "plain.PlainLoginModule";
    lines.push(`sasl.mechanism=${name}`);
    lines.push(
      `sasl.jaas.config=org.apache.kafka.common.security.${module} required username="USER" password="PASSWORD";`,
    );
  }
  return lines.join("\n");
}

function franzGo(listener) {
  const imports = ['"github.com/twmb/franz-go/pkg/kgo"'];
  const options = [`kgo.SeedBrokers(${quoted(listener.address)})`];
  if (hasTls(listener)) {
    imports.push('"crypto/tls"');
    options.push(
      "kgo.DialTLSConfig(&tls.Config{RootCAs: pool}) // pool has the certificate in ca.pem",
    );
  }
  if (hasSasl(listener)) {
    const name = mechanism(listener);
    const [folder, method] = name.startsWith("SCRAM")
      ? ["scram", name.endsWith("512") ? "AsSha512Mechanism" : "AsSha256Mechanism"]
      : ["plain", "AsMechanism"];
    imports.push(`"github.com/twmb/franz-go/pkg/sasl/${folder}"`);
    options.push(`kgo.SASL(${folder}.Auth{User: "USER", Pass: "PASSWORD"}.${method}())`);
  }
  options.push('kgo.ConsumerGroup("app")', 'kgo.ConsumeTopics("orders")');
  const list = options.map((line) =>
    line.includes(" //") ? line.replace(" //", ", //") : `${line},`,
  );
  return `import (
\t${imports.join("\n\t")}
)

client, err := kgo.NewClient(
\t${list.join("\n\t")}
)
`;
}

function kafkajs(listener) {
  const lines = ['clientId: "app"', `brokers: [${quoted(listener.address)}]`];
  if (hasTls(listener)) lines.push('ssl: { ca: [fs.readFileSync("ca.pem")] }');
  if (hasSasl(listener)) {
    const name = mechanism(listener).toLowerCase();
    lines.push(`sasl: { mechanism: ${quoted(name)}, username: "USER", password: "PASSWORD" }`);
  }
  const fs = hasTls(listener) ? 'const fs = require("fs");\n' : "";
  return `${fs}const { Kafka } = require("kafkajs");

const kafka = new Kafka({
  ${lines.join(",\n  ")},
});
const consumer = kafka.consumer({ groupId: "app" });
`;
}

function scripts(listener) {
  const isPlain = listener.protocol === "PLAINTEXT";
  const option = isPlain ? "" : " --command-config client.properties";
  const file = isPlain
    ? ""
    : `# client.properties:\n${properties(listener).replace(/^/gm, "#   ")}\n`;
  const at = `--bootstrap-server ${listener.address}${option}`;
  return `${file}coordinator-server topics ${at} --create --topic orders --partitions 3
coordinator-server produce ${at} --topic orders
coordinator-server consume ${at} --topic orders --group app --from-beginning
`;
}

const CLIENTS = [
  [
    "kafka-python",
    (listener) => `from kafka import KafkaConsumer, KafkaProducer

producer = KafkaProducer(
    ${python(listener)},
)
producer.send("orders", b"hello").get()

consumer = KafkaConsumer(
    "orders",
    ${python(listener)},
    group_id="app",
    auto_offset_reset="earliest",
)
for record in consumer:
    print(record.value)
`,
  ],
  [
    "confluent-kafka (Python)",
    (listener) => `from confluent_kafka import Consumer

consumer = Consumer({
${librdkafka(listener)
  .map(([name, value]) => `    ${quoted(name)}: ${quoted(value)},`)
  .join("\n")}
    "group.id": "app",
    "auto.offset.reset": "earliest",
})
consumer.subscribe(["orders"])
while True:
    message = consumer.poll(1.0)
    if message is not None and not message.error():
        print(message.value())
`,
  ],
  ["aiokafka", aiokafka],
  ["Java", (listener) => `${properties(listener)}\ngroup.id=app\nauto.offset.reset=earliest\n`],
  ["franz-go", franzGo],
  ["kafkajs", kafkajs],
  ["Kafka’s scripts", scripts],
];

/** Return the snippets for the first listener, with a choice of the others. */
export function snippets(brokers, query = {}) {
  const listeners = brokers.find((row) => row.state === "running")?.endpoints ?? [];
  if (!listeners.length) return h("p", { class: "note" }, "No broker runs.");
  const listener = listeners.find((row) => row.name === query.listener) ?? listeners[0];
  return [
    listeners.length > 1
      ? h(
          "p",
          { class: "buttons" },
          "Listener: ",
          listeners.map((row) =>
            h(
              "a",
              {
                class: "button",
                href: place(["connect"], { listener: row.name }),
                "aria-current": row === listener ? "true" : null,
              },
              `${row.name} (${row.protocol})`,
            ),
          ),
        )
      : null,
    CLIENTS.map(([name, text], index) => {
      const code = text(listener);
      return h(
        "details",
        { class: "snippet", open: index === 0, "data-key": `snippet ${name}` },
        h("summary", null, name),
        copyButton(code),
        h("pre", { tabindex: "0" }, code),
      );
    }),
  ];
}

export const connect = {
  title: () => "Connect",
  wants: (event) => event.type === "broker",

  load: (parts, query, signal) => get("/brokers", null, signal),

  show: ({ brokers }, parts, query) =>
    h(
      "div",
      null,
      h("h1", null, "Connect"),
      h("p", null, "Copy a snippet; address and security are those of this broker."),
      snippets(brokers, query),
    ),
};
