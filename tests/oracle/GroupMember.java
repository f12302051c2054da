import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;

/**
 * A consumer that tells what happens to it as tests/clients/worker.py does, until SIGTERM.
 *
 * Arguments: settings as NAME=VALUE, then the topic. What was polled is committed before it is
 * called processed. A refused commit is repeated as long as the partition stays here.
 */
public class GroupMember {
    private static final Map<TopicPartition, List<ConsumerRecord<String, String>>> PENDING =
        new HashMap<>();
    private static volatile boolean stopping;

    public static void main(String[] arguments) {
        Properties settings = new Properties();
        String text = "org.apache.kafka.common.serialization.StringDeserializer";
        settings.put("key.deserializer", text);
        settings.put("value.deserializer", text);
        settings.put("enable.auto.commit", "false");
        settings.put("auto.offset.reset", "earliest");
        for (int index = 0; index < arguments.length - 1; index++) {
            String[] setting = arguments[index].split("=", 2);
            settings.put(setting[0], setting[1]);
        }
        Thread main = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            stopping = true;
            try {
                main.join();
            } catch (InterruptedException interrupted) {
                Runtime.getRuntime().halt(1);
            }
            Runtime.getRuntime().halt(0);
        }));
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings)) {
            consumer.subscribe(List.of(arguments[arguments.length - 1]), new Diary());
            while (!stopping) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) {
                    PENDING.computeIfAbsent(
                        new TopicPartition(record.topic(), record.partition()),
                        none -> new ArrayList<>()).add(record);
                }
                if (!PENDING.isEmpty()) {
                    commit(consumer);
                }
            }
        }
        System.out.println("{\"event\": \"closed\"}");
    }

    private static void commit(KafkaConsumer<String, String> consumer) {
        List<String> entries = new ArrayList<>();
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        PENDING.forEach((partition, records) -> records.forEach(record -> {
            entries.add("[\"" + record.topic() + "\", " + record.partition() + ", "
                + record.offset() + ", \"" + record.value() + "\"]");
            offsets.put(partition, new OffsetAndMetadata(record.offset() + 1));
        }));
        try {
            consumer.commitSync(offsets);
            System.out.println("{\"event\": \"processed\", \"records\": " + entries + "}");
            PENDING.clear();
        } catch (KafkaException error) {
            System.out.println("{\"event\": \"commit_failed\", \"error\": \""
                + error.getClass().getSimpleName() + "\"}");
        }
    }

    private static final class Diary implements ConsumerRebalanceListener {
        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            tell("assigned", partitions);
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            PENDING.keySet().removeAll(partitions);
            tell("revoked", partitions);
        }

        @Override
        public void onPartitionsLost(Collection<TopicPartition> partitions) {
            PENDING.keySet().removeAll(partitions);
            tell("lost", partitions);
        }

        private static void tell(String event, Collection<TopicPartition> partitions) {
            List<String> moved = new ArrayList<>();
            for (TopicPartition partition : partitions) {
                moved.add("[\"" + partition.topic() + "\", " + partition.partition() + "]");
            }
            System.out.println("{\"event\": \"" + event + "\", \"partitions\": " + moved + "}");
        }
    }
}
