import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.assignor.PartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.SimpleAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;

/**
 * Runs Kafka's assignors on groups that come as lines of JSON, and prints an assignment for each.
 *
 * A group is {"assignor", "homogeneous", "counts": {topic id: partitions}, "assignable": null or
 * {topic id: [partition]}, "members": {member id: {"instance", "topics": [topic id], "partitions":
 * {topic id: [partition]}}}}; maps keep the order of the line. The answer is {member id: {topic id:
 * [partition]}}, or {"": error}. Topic ids are 32 hexadecimal digits.
 */
public class Assign {
    static final ObjectMapper JSON = new ObjectMapper();
    static final Map<String, PartitionAssignor> ASSIGNORS = Map.of(
        "uniform", new UniformAssignor(), "range", new RangeAssignor(), "simple", new SimpleAssignor());

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream answers = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            ObjectNode answer = JSON.createObjectNode();
            try {
                assign(JSON.readTree(line), answer);
            } catch (RuntimeException error) {
                answer.put("", error.toString());
            }
            answers.println(JSON.writeValueAsString(answer));
        }
        answers.flush();
    }

    static void assign(JsonNode group, ObjectNode answer) {
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new LinkedHashMap<>();
        Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
        group.get("members").fields().forEachRemaining(entry -> {
            JsonNode member = entry.getValue();
            Set<Uuid> topicIds = new LinkedHashSet<>();
            member.get("topics").forEach(one -> topicIds.add(uuid(one.asText())));
            Map<Uuid, Set<Integer>> partitions = partitions(member.get("partitions"));
            partitions.forEach((topicId, ofTopic) -> ofTopic.forEach(partition ->
                owners.computeIfAbsent(topicId, __ -> new HashMap<>()).put(partition, entry.getKey())));
            members.put(entry.getKey(), new MemberSubscriptionAndAssignmentImpl(
                Optional.empty(), Optional.ofNullable(member.get("instance").textValue()), topicIds,
                new Assignment(partitions)));
        });
        Map<Uuid, Integer> counts = new HashMap<>();
        group.get("counts").fields().forEachRemaining(
            entry -> counts.put(uuid(entry.getKey()), entry.getValue().asInt()));
        SubscriptionType type = group.get("homogeneous").asBoolean()
            ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS;
        GroupSpecImpl spec = group.get("assignable").isNull()
            ? new GroupSpecImpl(members, type, owners)
            : new GroupSpecImpl(members, type, owners, Optional.of(partitions(group.get("assignable"))));
        SubscribedTopicDescriber topics = new SubscribedTopicDescriber() {
            @Override
            public int numPartitions(Uuid topicId) {
                return counts.getOrDefault(topicId, -1);
            }

            @Override
            public Set<String> racksForPartition(Uuid topicId, int partition) {
                return Set.of();
            }
        };
        GroupAssignment assignment = ASSIGNORS.get(group.get("assignor").asText()).assign(spec, topics);
        assignment.members().forEach((memberId, member) -> {
            ObjectNode own = answer.putObject(memberId);
            member.partitions().forEach((topicId, ofTopic) -> {
                ArrayNode numbers = own.putArray(hex(topicId));
                new TreeSet<>(ofTopic).forEach(numbers::add);
            });
        });
    }

    static Map<Uuid, Set<Integer>> partitions(JsonNode node) {
        Map<Uuid, Set<Integer>> partitions = new LinkedHashMap<>();
        node.fields().forEachRemaining(entry -> {
            Set<Integer> ofTopic = new TreeSet<>();
            entry.getValue().forEach(one -> ofTopic.add(one.asInt()));
            partitions.put(uuid(entry.getKey()), ofTopic);
        });
        return partitions;
    }

    static Uuid uuid(String hex) {
        return new Uuid(Long.parseUnsignedLong(hex.substring(0, 16), 16),
            Long.parseUnsignedLong(hex.substring(16), 16));
    }

    static String hex(Uuid uuid) {
        return String.format("%016x%016x",
            uuid.getMostSignificantBits(), uuid.getLeastSignificantBits());
    }
}
