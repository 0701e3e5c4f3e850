import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.atomic.AtomicInteger;
import kafka.common.OffsetAndMetadata;
import kafka.common.TopicAndPartition;
import kafka.consumer.ConsumerThreadId;
import kafka.javaapi.consumer.ConsumerRebalanceListener;
import kafka.utils.ZkUtils;
import org.I0Itec.zkclient.ZkClient;

/** What 0.9 added to the high-level consumer: the rebalance listener, and offsets to commit given as a map. */
public class ScalaConsumerSince09 extends ScalaConsumer {
    private ScalaConsumerSince09(String[] arguments) throws IOException {
        super(arguments);
    }

    public static void main(String[] arguments) throws Exception {
        new ScalaConsumerSince09(arguments).serve();
    }

    @Override
    protected Object[] run(String command, String[] words) throws Exception {
        switch (command) {
            case "listener":
                connector.setConsumerRebalanceListener(
                    new Listener(Integer.parseInt(words[0]), Integer.parseInt(words[1])));
                return new Object[] {};
            case "commit_map": // retry, then (topic, partition, offset, metadata)…
                Map<TopicAndPartition, OffsetAndMetadata> offsets = new HashMap<>();
                for (int i = 1; i < words.length; i += 4)
                    offsets.put(
                        new TopicAndPartition(words[i], Integer.parseInt(words[i + 1])),
                        OffsetAndMetadata.apply(Long.parseLong(words[i + 2]), words[i + 3]));
                connector.commitOffsets(offsets, Boolean.parseBoolean(words[0]));
                return new Object[] {};
            default: return super.run(command, words);
        }
    }

    @Override
    protected Object zooKeeper() throws Exception {
        return invoke(underlying(), "kafka$consumer$ZookeeperConsumerConnector$$zkUtils");
    }

    @Override
    protected ZkClient zkClient() throws Exception {
        return ((ZkUtils) zooKeeper()).zkClient();
    }

    /** Tells its calls as events; the first ones of each kind may be made to fail. */
    private class Listener implements ConsumerRebalanceListener {
        private final AtomicInteger releasingFailsFor;
        private final AtomicInteger startingFailsFor;

        Listener(int releasingFailures, int startingFailures) {
            releasingFailsFor = new AtomicInteger(releasingFailures);
            startingFailsFor = new AtomicInteger(startingFailures);
        }

        @Override
        public void beforeReleasingPartitions(Map<String, Set<Integer>> ownership) {
            List<Object> words = new ArrayList<>();
            for (String topic : ownership.keySet())
                for (Object partition : elements(ownership, topic)) words.addAll(Arrays.asList(topic, partition));
            event("before_releasing_partitions", words.toArray());
            failIf(releasingFailsFor, "releasing");
        }

        @Override
        public void beforeStartingFetchers(String id, Map<String, Map<Integer, ConsumerThreadId>> assignment) {
            List<Object> words = new ArrayList<>(List.of(id));
            assignment.forEach((topic, owners) ->
                owners.forEach((partition, thread) -> words.addAll(Arrays.asList(topic, partition, thread))));
            event("before_starting_fetchers", words.toArray());
            failIf(startingFailsFor, "starting");
        }

        private void failIf(AtomicInteger left, String where) {
            if (left.getAndDecrement() > 0) throw new RuntimeException("the listener fails before " + where);
        }

        /** The values are Scala's sets whatever the declaration says (KAFKA-2284). */
        private List<Object> elements(Map<String, ?> ownership, String topic) {
            List<Object> found = new ArrayList<>();
            if (ownership.get(topic) instanceof scala.collection.Iterable<?> set) {
                for (scala.collection.Iterator<?> i = set.iterator(); i.hasNext(); ) found.add(i.next());
            } else {
                found.addAll((Set<?>) ownership.get(topic));
            }
            return found;
        }
    }
}
