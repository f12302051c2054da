import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/**
 * Runs Kafka's command-line tools in one JVM, as starting one for each call takes seconds.
 *
 * A line of JSON on standard input is one call: {"main": class, "arguments": [...], "input": text};
 * a line on standard output is its outcome: {"code": ..., "out": ..., "err": ...}. A tool's call of
 * exit runs its shutdown hooks (the console producer sends in one) and ends it: what it prints after
 * that, while the exception unwinds, is lost as in a real one.
 */
public class ToolServer {
    private static Integer code;
    private static final List<Runnable> HOOKS = new ArrayList<>();

    private static final class Ended extends RuntimeException { }

    public static void main(String[] none) throws Exception {
        PrintStream answers = System.out;
        PrintStream realErrors = System.err;
        ObjectMapper json = new ObjectMapper();
        BufferedReader calls = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        InvocationHandler end = (exit, method, given) -> end((int) given[0]);
        setInExit("setExitProcedure", end);
        setInExit("setHaltProcedure", end);
        setInExit("setShutdownHookAdder", (exit, method, given) -> {
            HOOKS.add((Runnable) given[1]);
            return null;
        });
        String line;
        while ((line = calls.readLine()) != null) {
            JsonNode call = json.readTree(line);
            List<String> arguments = new ArrayList<>();
            call.get("arguments").forEach(argument -> arguments.add(argument.asText()));
            InputStream input =
                new ByteArrayInputStream(call.path("input").asText().getBytes(StandardCharsets.UTF_8));
            ByteArrayOutputStream out = new ByteArrayOutputStream();
            ByteArrayOutputStream err = new ByteArrayOutputStream();
            code = null;
            HOOKS.clear();
            System.setIn(input);
            System.setOut(new PrintStream(out, true, StandardCharsets.UTF_8));
            System.setErr(new PrintStream(err, true, StandardCharsets.UTF_8));
            try {
                toolClass(call.get("main").asText())
                    .getMethod("main", String[].class)
                    .invoke(null, (Object) arguments.toArray(new String[0]));
            } catch (ClassNotFoundException missing) {
                code = 1; // An older release without the tool.
                System.err.println(missing);
            } catch (InvocationTargetException error) {
                if (code == null) {
                    code = 1;
                    System.err.print("Exception in thread \"main\" ");
                    error.getCause().printStackTrace(System.err);
                }
            }
            if (code == null) {
                HOOKS.forEach(Runnable::run);
            }
            System.out.flush();
            System.err.flush();
            System.setErr(realErrors);
            answers.println(json.writeValueAsString(Map.of(
                "code", code == null ? 0 : code,
                "out", out.toString(StandardCharsets.UTF_8),
                "err", err.toString(StandardCharsets.UTF_8))));
            answers.flush();
        }
    }

    /** Return a tool's class. Before 4.4 kafka-configs was a class of the broker's jar. */
    private static Class<?> toolClass(String name) throws ClassNotFoundException {
        try {
            return Class.forName(name);
        } catch (ClassNotFoundException missing) {
            return Class.forName("kafka.admin" + name.substring(name.lastIndexOf('.')));
        }
    }

    /** Call a setter of Kafka's Exit, whose package is another one since 4.4. */
    private static void setInExit(String setter, InvocationHandler handler) throws Exception {
        Class<?> exit;
        try {
            exit = Class.forName("org.apache.kafka.common.utils.internals.Exit");
        } catch (ClassNotFoundException older) {
            exit = Class.forName("org.apache.kafka.common.utils.Exit");
        }
        for (Method method : exit.getMethods()) {
            if (method.getName().equals(setter)) {
                Class<?> type = method.getParameterTypes()[0];
                ClassLoader loader = type.getClassLoader();
                method.invoke(null, Proxy.newProxyInstance(loader, new Class<?>[] {type}, handler));
            }
        }
    }

    private static Object end(int status) {
        if (code == null) {
            code = status;
            HOOKS.forEach(Runnable::run);
            System.out.flush();
            System.err.flush();
            System.setOut(new PrintStream(OutputStream.nullOutputStream()));
            System.setErr(new PrintStream(OutputStream.nullOutputStream()));
        }
        throw new Ended();
    }
}
