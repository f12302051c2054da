// What Kafka's JaasContext makes of JAAS texts: one line of input each, in base64; a line of output.
// With the argument "files" what Java makes of JAAS files: their sections a and b.
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Base64;
import java.util.Map;
import java.util.Scanner;
import java.util.TreeMap;
import javax.security.auth.login.AppConfigurationEntry;
import javax.security.auth.login.Configuration;
import org.apache.kafka.common.config.types.Password;
import org.apache.kafka.common.security.JaasContext;

public class JaasTexts {
    public static void main(String[] arguments) throws Exception {
        boolean areFiles = arguments.length > 0;
        Path file = Files.createTempFile("jaas", ".conf");
        System.setProperty("jaas.known", "known value");
        Scanner lines = new Scanner(System.in);
        while (lines.hasNextLine()) {
            String text =
                new String(Base64.getDecoder().decode(lines.nextLine()), StandardCharsets.UTF_8);
            System.out.println(areFiles ? toldOfFile(text, file) : told(text));
        }
        Files.delete(file);
    }

    private static String toldOfFile(String text, Path file) throws Exception {
        StringBuilder told = new StringBuilder();
        Files.writeString(file, text);
        try {
            Configuration sections = Configuration.getInstance(
                "JavaLoginConfig", new java.security.URIParameter(file.toUri()));
            for (String name : new String[] {"a", "b"}) {
                AppConfigurationEntry[] entries = sections.getAppConfigurationEntry(name);
                if (entries == null)
                    continue;
                told.append('{').append(name);
                for (AppConfigurationEntry entry : entries)
                    tell(entry, told.append('|'));
            }
        } catch (java.security.NoSuchAlgorithmException | RuntimeException error) {
            return "refused";
        }
        return told.toString();
    }

    private static String told(String text) {
        StringBuilder told = new StringBuilder();
        try {
            Password password = new Password(text);
            JaasContext context =
                JaasContext.loadClientContext(Map.of("sasl.jaas.config", password));
            for (AppConfigurationEntry entry : context.configurationEntries())
                tell(entry, told);
        } catch (RuntimeException error) {
            return "refused";
        }
        return told.toString();
    }

    private static void tell(AppConfigurationEntry entry, StringBuilder told) {
        told.append(encoded(entry.getLoginModuleName()));
        for (Map.Entry<String, ?> option : new TreeMap<>(entry.getOptions()).entrySet())
            told.append(' ').append(encoded(option.getKey())).append('=')
                .append(encoded((String) option.getValue()));
    }

    private static String encoded(String text) {
        return Base64.getEncoder().encodeToString(text.getBytes(StandardCharsets.UTF_8));
    }
}
