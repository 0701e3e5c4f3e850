import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.clients.consumer.internals.PartitionAssignor;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

/** Asks the assignors of kafka-clients 1.1.1. Lines in and out: see questions() and _answers() in real_new_assignors.py. */
public class AssignorsOf11 {
    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split("\t", -1);
            PartitionAssignor assignor = assignor(words[0]);
            List<PartitionInfo> partitions = new ArrayList<>();
            Node node = new Node(0, "localhost", 9092);
            for (String topic : parts(words[1], ","))
                for (int number = 0; number < Integer.parseInt(topic.split(":")[1]); number++)
                    partitions.add(new PartitionInfo(topic.split(":")[0], number, node, new Node[] {node}, new Node[] {node}));
            Cluster cluster = new Cluster("c", Collections.singleton(node), partitions,
                Collections.<String>emptySet(), Collections.<String>emptySet());
            Map<String, PartitionAssignor.Subscription> members = new HashMap<>();
            for (int place = 2; place < words.length; place++) {
                String[] member = words[place].split(";", -1);  // id, generation, topics, owned or "-"
                List<String> topics = parts(member[2], ",");
                PartitionAssignor.Subscription subscription = new PartitionAssignor.Subscription(topics);
                if (words[0].equals("sticky") && !member[3].equals("-")) {
                    StickyAssignor of = new StickyAssignor();
                    of.onAssignment(new PartitionAssignor.Assignment(owned(member[3])));
                    subscription = new PartitionAssignor.Subscription(topics, of.subscription(new HashSet<>(topics)).userData());
                }
                members.put(member[0], subscription);
            }
            StringBuilder out = new StringBuilder();
            for (Map.Entry<String, PartitionAssignor.Assignment> entry : assignor.assign(cluster, members).entrySet()) {
                out.append(out.length() == 0 ? "" : "\t").append(entry.getKey()).append(";");
                String comma = "";
                for (TopicPartition partition : entry.getValue().partitions()) {
                    out.append(comma).append(partition.topic()).append(":").append(partition.partition());
                    comma = ",";
                }
            }
            System.out.println(out);
        }
    }

    private static PartitionAssignor assignor(String name) {
        switch (name) {
            case "range": return new RangeAssignor();
            case "roundrobin": return new RoundRobinAssignor();
            default: return new StickyAssignor();
        }
    }

    private static List<TopicPartition> owned(String text) {
        List<TopicPartition> partitions = new ArrayList<>();
        for (String part : parts(text, ","))
            partitions.add(new TopicPartition(part.split(":")[0], Integer.parseInt(part.split(":")[1])));
        return partitions;
    }

    private static List<String> parts(String text, String separator) {
        return text.isEmpty() ? new ArrayList<String>() : Arrays.asList(text.split(separator));
    }
}
