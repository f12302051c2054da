// What Kafka's JaasContext makes of JAAS texts: one line of input each, in base64; a line of output.
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.Map;
import java.util.Scanner;
import java.util.TreeMap;
import javax.security.auth.login.AppConfigurationEntry;
import org.apache.kafka.common.config.types.Password;
import org.apache.kafka.common.security.JaasContext;

public class JaasTexts {
    public static void main(String[] arguments) {
        Scanner lines = new Scanner(System.in);
        while (lines.hasNextLine()) {
            String text =
                new String(Base64.getDecoder().decode(lines.nextLine()), StandardCharsets.UTF_8);
            System.out.println(told(text));
        }
    }

    private static String told(String text) {
        StringBuilder told = new StringBuilder();
        try {
            Password password = new Password(text);
            JaasContext context =
                JaasContext.loadClientContext(Map.of("sasl.jaas.config", password));
            for (AppConfigurationEntry entry : context.configurationEntries()) {
                told.append(encoded(entry.getLoginModuleName()));
                for (Map.Entry<String, ?> option : new TreeMap<>(entry.getOptions()).entrySet())
                    told.append(' ').append(encoded(option.getKey())).append('=')
                        .append(encoded((String) option.getValue()));
            }
        } catch (RuntimeException error) {
            return "refused";
        }
        return told.toString();
    }

    private static String encoded(String text) {
        return Base64.getEncoder().encodeToString(text.getBytes(StandardCharsets.UTF_8));
    }
}
