import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

/** Asks the assignors of kafka-clients 3.9.1. Lines in and out: see questions() and _answers() in real_new_assignors.py. */
public class AssignorsOf39 {
    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split("\t", -1);
            ConsumerPartitionAssignor assignor = assignor(words[0]);
            List<PartitionInfo> partitions = new ArrayList<>();
            Node node = new Node(0, "localhost", 9092);
            for (String topic : parts(words[1], ","))
                for (int number = 0; number < Integer.parseInt(topic.split(":")[1]); number++)
                    partitions.add(new PartitionInfo(topic.split(":")[0], number, node, new Node[] {node}, new Node[] {node}));
            Cluster cluster = new Cluster("c", Collections.singleton(node), partitions,
                Collections.<String>emptySet(), Collections.<String>emptySet());
            Map<String, ConsumerPartitionAssignor.Subscription> members = new HashMap<>();
            for (int place = 2; place < words.length; place++) {
                String[] member = words[place].split(";", -1);  // id, generation, topics, owned or "-"
                members.put(member[0], subscription(words[0], member));
            }
            StringBuilder out = new StringBuilder();
            for (Map.Entry<String, ConsumerPartitionAssignor.Assignment> entry : assignor
                    .assign(cluster, new ConsumerPartitionAssignor.GroupSubscription(members)).groupAssignment().entrySet()) {
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

    private static ConsumerPartitionAssignor.Subscription subscription(String strategy, String[] member) {
        List<String> topics = parts(member[2], ",");
        int generation = Integer.parseInt(member[1]);
        if (member[3].equals("-"))
            return new ConsumerPartitionAssignor.Subscription(topics);
        List<TopicPartition> owned = owned(member[3]);
        if (strategy.equals("cooperative-sticky"))
            return new ConsumerPartitionAssignor.Subscription(topics, null, owned, generation, Optional.<String>empty());
        if (!strategy.equals("sticky"))
            return new ConsumerPartitionAssignor.Subscription(topics);
        StickyAssignor of = new StickyAssignor();
        of.onAssignment(new ConsumerPartitionAssignor.Assignment(owned),
            new ConsumerGroupMetadata("g", generation, member[0], Optional.<String>empty()));
        ByteBuffer userData = of.subscriptionUserData(new HashSet<>(topics));
        return new ConsumerPartitionAssignor.Subscription(topics, userData);
    }

    private static ConsumerPartitionAssignor assignor(String name) {
        switch (name) {
            case "range": return new RangeAssignor();
            case "roundrobin": return new RoundRobinAssignor();
            case "sticky": return new StickyAssignor();
            default: return new CooperativeStickyAssignor();
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
