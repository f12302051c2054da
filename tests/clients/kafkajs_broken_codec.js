// Produces a batch whose codec writes garbage instead of zstd, with kafkajs; prints the type of the error, or "stored".
//
// Arguments: bootstrap servers, topic.

const { Kafka, CompressionCodecs, CompressionTypes, logLevel } = require("kafkajs");

CompressionCodecs[CompressionTypes.ZSTD] = () => ({
  compress: async () => Buffer.from("this is no frame of zstd"),
  decompress: async (buffer) => buffer,
});

const [servers, topic] = process.argv.slice(2);
const kafka = new Kafka({
  brokers: servers.split(","),
  logLevel: logLevel.NOTHING,
  retry: { retries: 0 },
});
const producer = kafka.producer();

async function main() {
  await producer.connect();
  try {
    await producer.send({
      topic,
      compression: CompressionTypes.ZSTD,
      messages: [{ key: "k", value: "v" }],
    });
    console.log("stored");
  } catch (error) {
    console.log((error.cause ?? error).type ?? error.message);
  }
  await producer.disconnect();
}

main();
