import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataDelta;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage;
import org.apache.kafka.coordinator.group.Utils;

/**
 * Hashes topics as Kafka's group coordinator does. A line of JSON is the topics of a group, each
 * {"name", "id": [most, least significant bits], "racks": [[rack of a replica] of each partition]};
 * the answer is the hash of all of them.
 */
public class MetadataHash {
    record Topic(String name, Uuid id, List<List<String>> racks)
        implements CoordinatorMetadataImage.TopicMetadata {

        @Override
        public int partitionCount() {
            return racks.size();
        }

        @Override
        public List<String> partitionRacks(int partition) {
            return racks.get(partition);
        }
    }

    record Image(Topic topic) implements CoordinatorMetadataImage {
        @Override
        public Set<Uuid> topicIds() {
            return Set.of(topic.id());
        }

        @Override
        public Set<String> topicNames() {
            return Set.of(topic.name());
        }

        @Override
        public Optional<TopicMetadata> topicMetadata(String name) {
            return Optional.of(topic);
        }

        @Override
        public Optional<TopicMetadata> topicMetadata(Uuid id) {
            return Optional.of(topic);
        }

        @Override
        public CoordinatorMetadataDelta emptyDelta() {
            return CoordinatorMetadataDelta.EMPTY;
        }

        @Override
        public long version() {
            return 1;
        }

        @Override
        public boolean isEmpty() {
            return false;
        }
    }

    public static void main(String[] arguments) throws Exception {
        ObjectMapper json = new ObjectMapper();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            Map<String, Long> hashes = new HashMap<>();
            for (JsonNode one : json.readTree(line)) {
                List<List<String>> racks = new ArrayList<>();
                for (JsonNode ofPartition : one.get("racks")) {
                    List<String> names = new ArrayList<>();
                    ofPartition.forEach(rack -> names.add(rack.asText()));
                    racks.add(names);
                }
                Uuid id = new Uuid(one.get("id").get(0).asLong(), one.get("id").get(1).asLong());
                Topic topic = new Topic(one.get("name").asText(), id, racks);
                hashes.put(topic.name(), Utils.computeTopicHash(topic.name(), new Image(topic)));
            }
            System.out.println(Utils.computeGroupHash(hashes));
        }
    }
}
