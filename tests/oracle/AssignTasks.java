import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import org.apache.kafka.coordinator.group.api.streams.assignor.TopologyDescriber;
import org.apache.kafka.coordinator.group.streams.assignor.AssignmentConfigsImpl;
import org.apache.kafka.coordinator.group.streams.assignor.GroupSpecImpl;
import org.apache.kafka.coordinator.group.streams.assignor.MemberMetadataAndStateImpl;
import org.apache.kafka.coordinator.group.streams.assignor.StickyTaskAssignor;

/**
 * Runs Kafka's sticky task assignor on groups that come as lines of JSON; an assignment for each.
 *
 * A group is {"replicas", "subtopologies": {id: [tasks, stateful]}, "members": {member id:
 * {"process", "active": {subtopology id: [partition]}, "standby": the same, "offsets":
 * {subtopology id: {partition: offset}}}}}; maps keep the order of the line. The answer is {member id: {"active", "standby"}}.
 */
public class AssignTasks {
    static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        PrintStream answers = new PrintStream(System.out, false);
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            answers.println(JSON.writeValueAsString(assigned(JSON.readTree(line))));
        }
        answers.flush();
    }

    static ObjectNode assigned(JsonNode group) {
        Map<String, MemberMetadataAndStateImpl> members = new LinkedHashMap<>();
        group.get("members").fields().forEachRemaining(entry -> {
            JsonNode member = entry.getValue();
            members.put(entry.getKey(), new MemberMetadataAndStateImpl(
                Optional.empty(), Optional.empty(), member.get("process").asText(), Map.of(),
                tasks(member.get("active")), tasks(member.get("standby")), Map.of(),
                offsets(member.get("offsets")), Map.of()));
        });
        JsonNode subtopologies = group.get("subtopologies");
        TopologyDescriber topology = new TopologyDescriber() {
            @Override
            public List<String> subtopologies() {
                List<String> ids = new ArrayList<>();
                subtopologies.fieldNames().forEachRemaining(ids::add);
                return ids;
            }

            @Override
            public int maxNumInputPartitions(String id) {
                return subtopologies.get(id).get(0).asInt();
            }

            @Override
            public boolean isStateful(String id) {
                return subtopologies.get(id).get(1).asBoolean();
            }
        };
        AssignmentConfigsImpl configs =
            new AssignmentConfigsImpl(group.get("replicas").asInt(), List.of());
        ObjectNode answer = JSON.createObjectNode();
        new StickyTaskAssignor().assign(new GroupSpecImpl(members, configs), topology).members().forEach(
            (memberId, assignment) -> {
                ObjectNode own = answer.putObject(memberId);
                own.set("active", JSON.valueToTree(assignment.activeTasks()));
                own.set("standby", JSON.valueToTree(assignment.standbyTasks()));
            });
        return answer;
    }

    static Map<String, Map<Integer, Long>> offsets(JsonNode node) {
        Map<String, Map<Integer, Long>> offsets = new LinkedHashMap<>();
        node.fields().forEachRemaining(entry -> {
            Map<Integer, Long> own = new LinkedHashMap<>();
            entry.getValue().fields().forEachRemaining(
                one -> own.put(Integer.parseInt(one.getKey()), one.getValue().asLong()));
            offsets.put(entry.getKey(), own);
        });
        return offsets;
    }

    static Map<String, Set<Integer>> tasks(JsonNode node) {
        Map<String, Set<Integer>> tasks = new LinkedHashMap<>();
        node.fields().forEachRemaining(entry -> {
            Set<Integer> partitions = new TreeSet<>();
            entry.getValue().forEach(one -> partitions.add(one.asInt()));
            tasks.put(entry.getKey(), partitions);
        });
        return tasks;
    }
}
