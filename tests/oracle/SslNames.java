import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.HexFormat;
import javax.security.auth.x500.X500Principal;
import org.apache.kafka.common.security.ssl.SslPrincipalMapper;

/** Names of principals as Java and Kafka make them: a line of questions each, a line of answers. */
public class SslNames {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ", -1);
            System.out.println(words.length == 1 ? name(words[0]) : mapped(words[0], words[1]));
        }
    }

    private static String name(String encoded) {
        try {
            return encode(new X500Principal(HexFormat.of().parseHex(encoded)).getName());
        } catch (RuntimeException error) {
            return "!" + error.getClass().getSimpleName();
        }
    }

    private static String mapped(String rules, String subject) {
        try {
            return encode(SslPrincipalMapper.fromRules(decode(rules)).getName(decode(subject)));
        } catch (Exception error) {
            return "!" + error.getClass().getSimpleName();
        }
    }

    private static String encode(String text) {
        return Base64.getEncoder().encodeToString(text.getBytes(StandardCharsets.UTF_8));
    }

    private static String decode(String text) {
        return new String(Base64.getDecoder().decode(text), StandardCharsets.UTF_8);
    }
}
