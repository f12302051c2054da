import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.LinkedBlockingQueue;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicIdPartition;

/**
 * A member of a share group that acknowledges what it gets as the values say.
 *
 * Arguments: bootstrap servers, group, topic, what to do with each record ("obey", or "hold" to wait
 * with it until it ends). To obey is to take what the value begins with: "accept", "release", "reject",
 * "renew" (renewed, and accepted when it has come again). Prints a line per record with its offset,
 * its delivery count and its value, and "committed" or "failed" after each acknowledgement. A line
 * on standard input ends it in good order.
 */
public class ShareMember {
    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("group.id", arguments[1]);
        settings.put("share.acknowledgement.mode", "explicit");
        settings.put("max.poll.records", "10");
        settings.put("share.acquire.mode", "record_limit");
        String text = "org.apache.kafka.common.serialization.StringDeserializer";
        settings.put("key.deserializer", text);
        settings.put("value.deserializer", text);
        boolean holds = arguments[3].equals("hold");
        LinkedBlockingQueue<String> typed = new LinkedBlockingQueue<>();
        Thread reader = new Thread(() -> {
            try {
                new BufferedReader(new InputStreamReader(System.in)).readLine();
            } catch (java.io.IOException ignored) {
                return;
            }
            typed.add("end");
        });
        reader.setDaemon(true);
        reader.start();
        try (KafkaShareConsumer<String, String> consumer = new KafkaShareConsumer<>(settings)) {
            consumer.subscribe(List.of(arguments[2]));
            Set<Long> renewed = new HashSet<>();
            while (typed.isEmpty()) {
                ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(200));
                for (ConsumerRecord<String, String> record : records) {
                    System.out.println("got " + record.offset() + " " + record.deliveryCount().get()
                        + " " + record.value());
                }
                if (holds && !records.isEmpty()) {
                    typed.put(typed.take());
                }
                records.forEach(record -> obey(consumer, record, renewed));
                tell(consumer.commitSync());
            }
        }
        System.out.println("closed");
    }

    private static void obey(
            KafkaShareConsumer<String, String> consumer,
            ConsumerRecord<String, String> record,
            Set<Long> renewed) {
        String word = record.value().split(" ")[0];
        if (word.equals("renew") && renewed.add(record.offset())) {
            consumer.acknowledge(record, AcknowledgeType.RENEW);
        } else if (word.equals("renew")) {
            consumer.acknowledge(record, AcknowledgeType.ACCEPT);
        } else {
            consumer.acknowledge(record, AcknowledgeType.valueOf(word.toUpperCase()));
        }
    }

    private static void tell(Map<TopicIdPartition, Optional<KafkaException>> results) {
        for (Optional<KafkaException> error : results.values()) {
            System.out.println(error.map(thrown -> "failed " + thrown).orElse("committed"));
        }
    }
}
