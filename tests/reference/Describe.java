import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.coordinator.group.GroupConfig;
import org.apache.kafka.server.config.AbstractKafkaConfig;
import org.apache.kafka.server.config.ConfigSynonym;
import org.apache.kafka.server.config.ServerTopicConfigSynonyms;
import org.apache.kafka.storage.internals.log.LogConfig;

/** Prints the settings and error codes of the Kafka on the class path as JSON. */
public class Describe {
    public static void main(String[] arguments) throws Exception {
        Map<String, Object> all = new TreeMap<>();
        all.put("broker", settings(AbstractKafkaConfig.CONFIG_DEF));
        all.put("topic", settings(field(LogConfig.class, "CONFIG")));
        all.put("group", settings(groupConfigs()));
        Map<String, Object> synonyms = new TreeMap<>();
        ServerTopicConfigSynonyms.ALL_TOPIC_CONFIG_SYNONYMS.forEach((name, sources) ->
            synonyms.put(name, sources.stream().map(ConfigSynonym::name).collect(Collectors.toList())));
        all.put("topic_synonyms", synonyms);
        all.put("group_synonyms", groupSynonyms());
        Map<String, Object> errors = new TreeMap<>();
        for (Errors one : Errors.values()) {
            errors.put(one.name(), List.of((int) one.code(), one.message()));
        }
        all.put("errors", errors);
        System.out.println(json(all));
    }

    private static ConfigDef field(Class<?> owner, String name) throws Exception {
        Field field = owner.getDeclaredField(name);
        field.setAccessible(true);
        return (ConfigDef) field.get(null);
    }

    // Its name has changed between releases, as has that of the synonyms.
    private static ConfigDef groupConfigs() throws Exception {
        for (String name : List.of("CONFIG_DEF", "CONFIG")) {
            try {
                return field(GroupConfig.class, name);
            } catch (NoSuchFieldException e) {
                continue;
            }
        }
        throw new NoSuchFieldException("GroupConfig has no ConfigDef of a known name");
    }

    private static Map<String, Object> groupSynonyms() throws Exception {
        Map<String, Object> synonyms = new TreeMap<>();
        try {
            Map<?, ?> all = (Map<?, ?>) GroupConfig.class.getField("ALL_GROUP_CONFIG_SYNONYMS").get(null);
            all.forEach((name, source) ->
                synonyms.put((String) name, ((Optional<?>) source).orElse(null)));
        } catch (NoSuchFieldException e) {
            synonyms.clear();
        }
        return synonyms;
    }

    private static Map<String, Object> settings(ConfigDef definition) {
        Map<String, Object> settings = new TreeMap<>();
        definition.configKeys().forEach((name, key) -> {
            List<Object> row = new ArrayList<>();
            row.add(key.type().name());
            row.add(key.hasDefault() ? ConfigDef.convertToString(key.defaultValue, key.type()) : null);
            row.add(key.validator == null ? null : key.validator.toString());
            row.add(key.internalConfig);
            settings.put(name, row);
        });
        return settings;
    }

    private static String json(Object value) {
        if (value instanceof Map<?, ?> map) {
            return map.entrySet().stream()
                .map(one -> json(one.getKey()) + ": " + json(one.getValue()))
                .collect(Collectors.joining(", ", "{", "}"));
        }
        if (value instanceof List<?> list) {
            return list.stream().map(Describe::json).collect(Collectors.joining(", ", "[", "]"));
        }
        if (value instanceof String text) {
            StringBuilder quoted = new StringBuilder("\"");
            for (char one : text.toCharArray()) {
                if (one == '"' || one == '\\') {
                    quoted.append('\\').append(one);
                } else if (one < ' ') {
                    quoted.append(String.format("\\u%04x", (int) one));
                } else {
                    quoted.append(one);
                }
            }
            return quoted.append('"').toString();
        }
        return String.valueOf(value);
    }
}
