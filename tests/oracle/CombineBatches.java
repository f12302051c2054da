import java.util.ArrayList;
import java.util.List;
import java.util.Scanner;
import org.apache.kafka.coordinator.share.PersisterStateBatchCombiner;
import org.apache.kafka.server.share.persister.PersisterStateBatch;

/** Combines state batches by Kafka's own class: a case per line, `start; so far; new`. */
public class CombineBatches {
    public static void main(String[] arguments) {
        Scanner lines = new Scanner(System.in);
        StringBuilder out = new StringBuilder();
        while (lines.hasNextLine()) {
            String[] parts = lines.nextLine().split(";", -1);
            long start = Long.parseLong(parts[0]);
            for (PersisterStateBatch one :
                new PersisterStateBatchCombiner(batches(parts[1]), batches(parts[2]), start).combineStateBatches()) {
                out.append(one.firstOffset()).append(',').append(one.lastOffset()).append(',')
                    .append(one.deliveryState()).append(',').append(one.deliveryCount()).append(' ');
            }
            out.append('\n');
        }
        System.out.print(out);
    }

    private static List<PersisterStateBatch> batches(String text) {
        List<PersisterStateBatch> found = new ArrayList<>();
        for (String one : text.trim().split(" ")) {
            if (!one.isEmpty()) {
                String[] fields = one.split(",");
                found.add(new PersisterStateBatch(Long.parseLong(fields[0]), Long.parseLong(fields[1]),
                    Byte.parseByte(fields[2]), Short.parseShort(fields[3])));
            }
        }
        return found;
    }
}
