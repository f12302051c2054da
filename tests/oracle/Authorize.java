import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.metrics.MetricValueProvider;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.PluginMetrics;
import org.apache.kafka.common.metrics.Sensor;
import org.apache.kafka.common.requests.RequestContext;
import org.apache.kafka.common.requests.RequestHeader;
import org.apache.kafka.common.network.ClientInformation;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizationResult;

/**
 * Asks Kafka's StandardAuthorizer. A line is a world: {"super_users", "allow", "acls": [[type, name,
 * pattern, principal, host, operation, permission]], "questions": [[principal, host, operation, type,
 * name or null]]}; the answer is a line of 0 and 1. A null name asks authorizeByResourceType.
 */
public class Authorize {
    record Stub(Metrics metrics) implements PluginMetrics {
        public MetricName metricName(String name, String text, LinkedHashMap<String, String> tags) {
            return metrics.metricName(name, "stub", text, tags);
        }
        public void addMetric(MetricName name, MetricValueProvider<?> provider) { }
        public void removeMetric(MetricName name) { }
        public Sensor addSensor(String name) { return metrics.sensor(name); }
        public void removeSensor(String name) { }
    }

    public static void main(String[] arguments) throws Exception {
        ObjectMapper json = new ObjectMapper();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        Stub stub = new Stub(new Metrics());
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode world = json.readTree(line);
            StandardAuthorizer authorizer = new StandardAuthorizer();
            authorizer.withPluginMetrics(stub);
            authorizer.configure(Map.of(
                "super.users", world.get("super_users").asText(),
                "allow.everyone.if.no.acl.found", world.get("allow").asText(),
                "node.id", "1"));
            authorizer.completeInitialLoad();
            for (JsonNode acl : world.get("acls")) {
                authorizer.addAcl(Uuid.randomUuid(), new StandardAcl(
                    ResourceType.fromString(acl.get(0).asText()), acl.get(1).asText(),
                    PatternType.fromString(acl.get(2).asText()), acl.get(3).asText(),
                    acl.get(4).asText(), AclOperation.fromString(acl.get(5).asText()),
                    AclPermissionType.fromString(acl.get(6).asText())));
            }
            StringBuilder answers = new StringBuilder();
            for (JsonNode question : world.get("questions")) {
                String[] principal = question.get(0).asText().split(":", 2);
                RequestContext context = new RequestContext(
                    new RequestHeader(ApiKeys.METADATA, (short) 12, "c", 1), "1",
                    InetAddress.getByName(question.get(1).asText()),
                    new KafkaPrincipal(principal[0], principal[1]),
                    ListenerName.forSecurityProtocol(SecurityProtocol.PLAINTEXT),
                    SecurityProtocol.PLAINTEXT, ClientInformation.EMPTY, false);
                AclOperation operation = AclOperation.fromString(question.get(2).asText());
                ResourceType type = ResourceType.fromString(question.get(3).asText());
                AuthorizationResult result = question.get(4).isNull()
                    ? authorizer.authorizeByResourceType(context, operation, type)
                    : authorizer.authorize(context, List.of(new Action(operation,
                        new ResourcePattern(type, question.get(4).asText(), PatternType.LITERAL),
                        1, false, false))).get(0);
                answers.append(result == AuthorizationResult.ALLOWED ? '1' : '0');
            }
            out.println(answers);
        }
        out.flush();
    }
}
