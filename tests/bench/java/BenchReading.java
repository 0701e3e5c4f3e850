import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicLong;
import kafka.consumer.Consumer;
import kafka.consumer.ConsumerConfig;
import kafka.consumer.ConsumerIterator;
import kafka.consumer.KafkaStream;
import kafka.javaapi.consumer.ConsumerConnector;
import kafka.message.MessageAndMetadata;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;

/**
 * Reads a topic to its end as fast as it goes, and prints records and nanoseconds from the first record on.
 *
 *   BenchReading old|new TOPIC STREAMS PARTITIONS RECORDS key=value...
 *
 * Each partition holds RECORDS / PARTITIONS records. "old" is the Scala consumer, one thread a stream.
 */
public final class BenchReading {
    private static final AtomicLong first = new AtomicLong();
    private static final AtomicLong last = new AtomicLong();
    private static long bytes;

    public static void main(String[] arguments) throws Exception {
        String topic = arguments[1];
        int streams = Integer.parseInt(arguments[2]);
        int partitions = Integer.parseInt(arguments[3]);
        long records = Long.parseLong(arguments[4]);
        Properties settings = new Properties();
        for (String argument : Arrays.asList(arguments).subList(5, arguments.length)) {
            String[] keyAndValue = argument.split("=", 2);
            settings.put(keyAndValue[0], keyAndValue[1]);
        }
        long lastOffset = records / partitions - 1;
        long counted = arguments[0].equals("old")
            ? Old.read(settings, topic, streams, partitions, lastOffset) + records
            : New.read(settings, topic, partitions, lastOffset) + records;
        System.out.println(counted + " " + (last.get() - first.get()));
        System.out.flush();
        System.exit(0); // what shutting down costs is not asked here
    }

    private static final class Old {
        /** Minus the records that had been handed over when the clock began. */
        static long read(Properties settings, String topic, int streams, int partitions, long lastOffset)
                throws Exception {
            ConsumerConnector connector = Consumer.createJavaConsumerConnector(new ConsumerConfig(settings));
            CountDownLatch open = new CountDownLatch(partitions);
            Map<String, List<KafkaStream<byte[], byte[]>>> made =
                connector.createMessageStreams(Collections.singletonMap(topic, streams));
            for (KafkaStream<byte[], byte[]> stream : made.get(topic)) {
                Thread reader = new Thread(() -> read(stream, lastOffset, open));
                reader.setDaemon(true);
                reader.start();
            }
            open.await();
            last.set(System.nanoTime());
            return -1;
        }

        private static void read(KafkaStream<byte[], byte[]> stream, long lastOffset, CountDownLatch open) {
            ConsumerIterator<byte[], byte[]> iterator = stream.iterator();
            iterator.hasNext();
            first.compareAndSet(0, System.nanoTime());
            long read = 0;
            while (iterator.hasNext()) {
                MessageAndMetadata<byte[], byte[]> record = iterator.next();
                read += record.message().length;
                if (record.offset() == lastOffset) {
                    bytes += read;
                    open.countDown();
                }
            }
        }
    }

    private static final class New {
        static long read(Properties settings, String topic, int partitions, long lastOffset) {
            settings.put("key.deserializer", "org.apache.kafka.common.serialization.ByteArrayDeserializer");
            settings.put("value.deserializer", "org.apache.kafka.common.serialization.ByteArrayDeserializer");
            KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings);
            consumer.subscribe(Collections.singletonList(topic));
            long before = 0;
            int open = partitions;
            while (open > 0) {
                ConsumerRecords<byte[], byte[]> records = consumer.poll(1000);
                if (before == 0 && !records.isEmpty()) {
                    before = records.count();
                    first.set(System.nanoTime());
                }
                for (ConsumerRecord<byte[], byte[]> record : records) {
                    bytes += record.value().length;
                    if (record.offset() == lastOffset) {
                        open--;
                    }
                }
            }
            last.set(System.nanoTime());
            return -before;
        }
    }
}
