import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ProducerFencedException;

/**
 * Copies a topic to another in transactions, one per poll, until COUNT records are committed.
 *
 * Arguments: bootstrap servers, source, target, transactional id, count. Prints a line per commit.
 */
public class TransactionalCopy {
    public static void main(String[] arguments) {
        String bootstrap = arguments[0];
        int count = Integer.parseInt(arguments[4]);
        Properties reading = new Properties();
        reading.put("bootstrap.servers", bootstrap);
        reading.put("group.id", "copy");
        reading.put("enable.auto.commit", "false");
        reading.put("auto.offset.reset", "earliest");
        reading.put("isolation.level", "read_committed");
        reading.put("max.poll.records", "10");
        String text = "org.apache.kafka.common.serialization.StringDeserializer";
        reading.put("key.deserializer", text);
        reading.put("value.deserializer", text);
        Properties writing = new Properties();
        writing.put("bootstrap.servers", bootstrap);
        writing.put("transactional.id", arguments[3]);
        writing.put("max.block.ms", "60000");
        String serializer = "org.apache.kafka.common.serialization.StringSerializer";
        writing.put("key.serializer", serializer);
        writing.put("value.serializer", serializer);
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(reading)) {
            KafkaProducer<String, String> producer = started(writing);
            consumer.subscribe(List.of(arguments[1]));
            int committed = 0;
            while (committed < count) {
                ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(200));
                if (records.isEmpty()) {
                    continue;
                }
                try {
                    copy(consumer, producer, records, arguments[2]);
                    committed += records.count();
                    System.out.println("committed " + committed);
                } catch (ProducerFencedException fenced) {
                    throw fenced;
                } catch (KafkaException error) {
                    System.err.println("again after " + error);
                    producer.close(Duration.ZERO);
                    producer = started(writing);
                    rewind(consumer);
                }
            }
            producer.close();
        }
    }

    private static KafkaProducer<String, String> started(Properties settings) {
        KafkaProducer<String, String> producer = new KafkaProducer<>(settings);
        producer.initTransactions();
        return producer;
    }

    private static void copy(
            KafkaConsumer<String, String> consumer,
            KafkaProducer<String, String> producer,
            ConsumerRecords<String, String> records,
            String target) {
        producer.beginTransaction();
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        for (ConsumerRecord<String, String> record : records) {
            producer.send(new ProducerRecord<>(target, record.key(), record.value()));
            offsets.put(
                new TopicPartition(record.topic(), record.partition()),
                new OffsetAndMetadata(record.offset() + 1));
        }
        producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
        producer.commitTransaction();
    }

    private static void rewind(KafkaConsumer<String, String> consumer) {
        Map<TopicPartition, OffsetAndMetadata> stored = consumer.committed(consumer.assignment());
        for (TopicPartition partition : consumer.assignment()) {
            OffsetAndMetadata offset = stored.get(partition);
            consumer.seek(partition, offset == null ? 0 : offset.offset());
        }
    }
}
