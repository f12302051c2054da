// Copies a topic to another in transactions of at most ten records, with kafkajs, until it is
// killed. A value is copied with an exclamation mark.
//
// Arguments: bootstrap servers, source, target, transactional id (and group). With TLS_DIRECTORY in the
// environment it connects by TLS, with the files ca.pem and client.pem of that directory. The variable SASL
// may say how it authenticates.

const { readFileSync } = require("fs");
const { Kafka, logLevel } = require("kafkajs");

const RECORDS_PER_TRANSACTION = 10;
const [servers, source, target, name] = process.argv.slice(2);

const directory = process.env.TLS_DIRECTORY;
const read = (name) => readFileSync(`${directory}/${name}`);
const ssl = directory && { ca: read("ca.pem"), cert: read("client.pem"), key: read("client.pem") };

// How the client authenticates: SASL=MECHANISM:USER:PASSWORD, the password maybe a token.
function secured() {
  const [mechanism, username, ...rest] = (process.env.SASL ?? "").split(":");
  if (!mechanism) return undefined;
  const password = rest.join(":");
  if (mechanism === "OAUTHBEARER") {
    return { mechanism, oauthBearerProvider: async () => ({ value: password }) };
  }
  return { mechanism, username, password };
}

const kafka = new Kafka({
  brokers: servers.split(","),
  logLevel: logLevel.WARN,
  ssl,
  sasl: secured(),
  reauthenticationThreshold: 1000, // ms; a session that is shorter is begun anew too often
});
const producer = kafka.producer({
  transactionalId: name,
  idempotent: true,
  maxInFlightRequests: 1,
  transactionTimeout: 20000,
});
const consumer = kafka.consumer({
  groupId: name,
  sessionTimeout: 3000,
  heartbeatInterval: 300,
  readUncommitted: false,
});

async function transform(batch, records) {
  const transaction = await producer.transaction();
  try {
    const messages = records.map(({ key, value }) => ({ key, value: `${value}!` }));
    await transaction.send({ topic: target, messages });
    const offset = (BigInt(records.at(-1).offset) + 1n).toString();
    const partitions = [{ partition: batch.partition, offset }];
    await transaction.sendOffsets({
      consumerGroupId: name,
      topics: [{ topic: batch.topic, partitions }],
    });
    await transaction.commit();
  } catch (error) {
    await transaction.abort();
    throw error;
  }
}

// A fetch has whole batches. What was resolved is not read again when a later transaction fails.
async function eachBatch({ batch, heartbeat, isRunning, isStale, resolveOffset }) {
  for (let start = 0; start < batch.messages.length; start += RECORDS_PER_TRANSACTION) {
    if (!isRunning() || isStale()) return;
    const records = batch.messages.slice(start, start + RECORDS_PER_TRANSACTION);
    await transform(batch, records);
    resolveOffset(records.at(-1).offset);
    console.error("committed");
    await heartbeat();
  }
}

// It cannot go on with this producer, and is to be started again.
function fail(error) {
  console.error(error);
  process.exit(3);
}

async function main() {
  // The producer first: it ends what another instance left open, then the offsets can be read.
  await producer.connect();
  await consumer.connect();
  await consumer.subscribe({ topic: source, fromBeginning: true });
  consumer.on(consumer.events.CRASH, ({ payload }) => fail(payload.error));
  await consumer.run({ autoCommit: false, eachBatchAutoResolve: false, eachBatch });
}

main().catch(fail);
