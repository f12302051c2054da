import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.function.BooleanSupplier;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.GroupListing;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Makes groups write every kind of record of classic and consumer groups to __consumer_offsets.
 *
 * Arguments: bootstrap servers and a phase. "expire" commits offsets and waits until they have
 * expired. "live" plays all other events and exits while three groups have members. "describe"
 * prints the groups as JSON.
 */
public class GroupLife {
    private static final int PARTITIONS = 3;
    private static String bootstrap;
    private static Admin admin;

    public static void main(String[] arguments) throws Exception {
        bootstrap = arguments[0];
        admin = Admin.create(Map.of("bootstrap.servers", bootstrap));
        switch (arguments[1]) {
            case "expire" -> expire();
            case "live" -> live();
            case "describe" -> describe();
            default -> throw new IllegalArgumentException(arguments[1]);
        }
        System.out.flush();
        Runtime.getRuntime().halt(0); // Without leaving the groups.
    }

    private static void expire() throws Exception {
        admin.createTopics(List.of(
            new NewTopic("life", PARTITIONS, (short) 1),
            new NewTopic("life-out", 1, (short) 1),
            new NewTopic("life-gone", 1, (short) 1))).all().get();
        produce();
        try (KafkaConsumer<String, String> member = join("g-expired")) {
            owning(PARTITIONS, member);
            member.commitSync(Map.of(at(0), offset(4, "soon gone"), at(1), offset(5, "")));
        }
        commit("g-expired-simple", Map.of(at(2), offset(6, "simple, soon gone")));
        until(() -> groups().stream().noneMatch(one -> one.startsWith("g-expired")));
    }

    private static void live() throws Exception {
        produce();
        simpleGroups();
        classicGroups();
        transactions();
        KafkaConsumer<String, String> first = join("g-modern", "group.protocol", "consumer");
        owning(PARTITIONS, first);
        KafkaConsumer<String, String> second =
            join("g-modern", "group.protocol", "consumer", "group.instance.id", "mi");
        owning(PARTITIONS, first, second);
        first.commitSync(first.assignment().stream()
            .collect(Collectors.toMap(one -> one, one -> offset(2, "modern"))));
        first.close();
    }

    private static void simpleGroups() throws Exception {
        commit("g-simple", Map.of(at(0), offset(1, "first"), at(1), new OffsetAndMetadata(2)));
        commit("g-simple", Map.of(at(0), offset(3, "h\u00e9llo \u65e5\u672c \ud83d\ude00")));
        commit("g-deleted", Map.of(at(0), offset(1, ""), at(1), offset(2, "")));
        admin.deleteConsumerGroups(List.of("g-deleted")).all().get();
        commit("g-offdel", Map.of(at(0), offset(1, ""), at(1), offset(2, "kept")));
        admin.deleteConsumerGroupOffsets("g-offdel", Set.of(at(0))).all().get();
        TopicPartition gone = new TopicPartition("life-gone", 0);
        commit("g-topicgone", Map.of(gone, offset(0, ""), at(2), offset(2, "kept")));
        admin.deleteTopics(List.of("life-gone")).all().get();
        until(() -> !offsets("g-topicgone").containsKey(gone));
    }

    private static void classicGroups() {
        KafkaConsumer<String, String> first = join("g-classic", "client.id", "ca");
        owning(PARTITIONS, first);
        first.commitSync(Map.of(at(0), offset(2, "gen1")));
        KafkaConsumer<String, String> second = join("g-classic", "client.id", "cb");
        owning(PARTITIONS, first, second);
        KafkaConsumer<String, String> third = join("g-classic", "client.id", "cd");
        owning(PARTITIONS, first, second, third);
        for (KafkaConsumer<String, String> member : List.of(first, second, third)) {
            for (TopicPartition one : member.assignment()) {
                member.commitSync(Map.of(one, offset(7 + one.partition(), "three")));
            }
        }
        first.close();
        owning(PARTITIONS, second, third);
        second.close();
        owning(PARTITIONS, third);
        third.close();

        String[] cooperative = {
            "partition.assignment.strategy", CooperativeStickyAssignor.class.getName()};
        KafkaConsumer<String, String> stays = join("g-stays", cooperative);
        owning(PARTITIONS, stays, join("g-stays", cooperative));
        stays.commitSync(Map.of(stays.assignment().iterator().next(), offset(5, "")));

        KafkaConsumer<String, String> restarts = join("g-static", "group.instance.id", "inst-1");
        KafkaConsumer<String, String> other = join("g-static", "group.instance.id", "inst-2");
        owning(PARTITIONS, restarts, other);
        restarts.close();
        restarts = join("g-static", "group.instance.id", "inst-1");
        owning(PARTITIONS, restarts, other);
        restarts.commitSync(restarts.assignment().stream()
            .collect(Collectors.toMap(one -> one, one -> offset(9, "static"))));
    }

    private static void transactions() {
        KafkaConsumer<String, String> member = join("g-txn");
        owning(PARTITIONS, member);
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("transactional.id", "life-txn");
        try (KafkaProducer<String, String> producer =
                new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>("life-out", "x", "1"));
            producer.sendOffsetsToTransaction(
                Map.of(at(0), offset(3, "txn 1")), member.groupMetadata());
            producer.commitTransaction();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>("life-out", "x", "2"));
            producer.sendOffsetsToTransaction(
                Map.of(at(0), offset(8, "aborted"), at(1), offset(8, "aborted")),
                member.groupMetadata());
            producer.abortTransaction();
            member.commitSync(Map.of(at(2), offset(4, "plain")));
            producer.beginTransaction();
            producer.send(new ProducerRecord<>("life-out", "x", "3"));
            producer.sendOffsetsToTransaction(
                Map.of(at(0), offset(6, "txn 3")), member.groupMetadata());
            producer.commitTransaction();
            producer.beginTransaction();
            producer.sendOffsetsToTransaction(
                Map.of(at(1), offset(1, "txn 4")), member.groupMetadata());
            member.close(); // The group is empty when the transaction ends.
            producer.commitTransaction();
        }
    }

    private static void describe() throws Exception {
        ObjectMapper mapper = new ObjectMapper();
        ObjectNode told = mapper.createObjectNode();
        for (GroupListing listed : admin.listGroups().all().get().stream()
                .sorted(Comparator.comparing(GroupListing::groupId)).toList()) {
            String name = listed.groupId();
            ConsumerGroupDescription described =
                admin.describeConsumerGroups(List.of(name)).all().get().get(name);
            ObjectNode group = told.putObject(name);
            group.put("type", listed.type().orElseThrow().toString());
            group.put("protocol_type", listed.protocol());
            group.put("members", described.members().size());
            ArrayNode instances = group.putArray("instances");
            described.members().stream().map(one -> one.groupInstanceId().orElse(null))
                .filter(Objects::nonNull).sorted().forEach(instances::add);
            ObjectNode offsets = group.putObject("offsets");
            offsets(name).entrySet().stream()
                .sorted(Comparator.comparing(one -> one.getKey().toString()))
                .forEach(one -> offsets.putObject(one.getKey().toString())
                    .put("offset", one.getValue().offset())
                    .put("metadata", one.getValue().metadata())
                    .put("leader_epoch", one.getValue().leaderEpoch().orElse(-1)));
        }
        System.out.println(mapper.writerWithDefaultPrettyPrinter().writeValueAsString(told));
    }

    private static KafkaConsumer<String, String> join(String group, String... settings) {
        Properties all = new Properties();
        all.put("bootstrap.servers", bootstrap);
        all.put("group.id", group);
        all.put("enable.auto.commit", "false");
        all.put("auto.offset.reset", "earliest");
        for (int index = 0; index < settings.length; index += 2) {
            all.put(settings[index], settings[index + 1]);
        }
        if (!"consumer".equals(all.get("group.protocol"))) {
            all.put("session.timeout.ms", "30000");
            all.put("heartbeat.interval.ms", "300");
        }
        KafkaConsumer<String, String> member =
            new KafkaConsumer<>(all, new StringDeserializer(), new StringDeserializer());
        member.subscribe(List.of("life"));
        return member;
    }

    /** Polls until all members have partitions, COUNT altogether. */
    @SafeVarargs
    private static void owning(int count, KafkaConsumer<String, String>... members) {
        until(() -> {
            int owned = 0;
            boolean each = true;
            for (KafkaConsumer<String, String> member : members) {
                member.poll(Duration.ofMillis(50));
                owned += member.assignment().size();
                each &= !member.assignment().isEmpty();
            }
            return each && owned == count;
        });
    }

    private static void until(BooleanSupplier condition) {
        long end = System.nanoTime() + Duration.ofMinutes(3).toNanos();
        while (!condition.getAsBoolean()) {
            if (System.nanoTime() > end) {
                throw new IllegalStateException("the condition did not come true in 3 minutes");
            }
            try {
                Thread.sleep(10);
            } catch (InterruptedException interrupted) {
                throw new IllegalStateException(interrupted);
            }
        }
    }

    private static void produce() throws Exception {
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(
                Map.of("bootstrap.servers", bootstrap),
                new StringSerializer(), new StringSerializer())) {
            for (int number = 0; number < 30; number++) {
                producer.send(new ProducerRecord<>(
                    "life", number % PARTITIONS, "k" + number, "v" + number)).get();
            }
        }
    }

    private static Set<String> groups() {
        try {
            return admin.listGroups().all().get().stream()
                .map(GroupListing::groupId).collect(Collectors.toSet());
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }

    private static Map<TopicPartition, OffsetAndMetadata> offsets(String group) {
        try {
            return admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get();
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }

    private static void commit(String group, Map<TopicPartition, OffsetAndMetadata> offsets)
            throws Exception {
        admin.alterConsumerGroupOffsets(group, offsets).all().get();
    }

    private static TopicPartition at(int partition) {
        return new TopicPartition("life", partition);
    }

    private static OffsetAndMetadata offset(long offset, String metadata) {
        return new OffsetAndMetadata(offset, Optional.of(0), metadata);
    }
}
