import java.io.FileOutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.Collection;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.WakeupException;

/**
 * The Java new consumer as a member of a group, for the study.
 *
 *   NewConsumer TOPICS|pattern:REGEX WORK_MS key=value... SETTINGS.json
 *
 * Writes the JSON lines of study/subjects/reporting.py to the file that SETTINGS.json calls "history". SIGTERM: leaves
 * the group in order. WORK_MS is how long the application works on each record.
 */
public final class NewConsumer {
    private static FileOutputStream lines;
    private static long sequence;

    public static void main(String[] arguments) throws Exception {
        String topics = arguments[0];
        long workMs = Long.parseLong(arguments[1]);
        Properties settings = new Properties();
        for (int i = 2; i < arguments.length - 1; i++) {
            String[] keyAndValue = arguments[i].split("=", 2);
            settings.put(keyAndValue[0], keyAndValue[1]);
        }
        settings.put("key.deserializer", "org.apache.kafka.common.serialization.ByteArrayDeserializer");
        settings.put("value.deserializer", "org.apache.kafka.common.serialization.ByteArrayDeserializer");
        lines = new FileOutputStream(historyOf(Path.of(arguments[arguments.length - 1])), true);
        KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings);
        CountDownLatch closed = new CountDownLatch(1);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            consumer.wakeup();
            try {
                closed.await();
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        }));
        try {
            subscribe(consumer, topics);
            while (true) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(100))) {
                    sequence++;
                    write("delivered", record.topic(), record.partition(),
                        ", \"offset\": " + record.offset() + ", \"sequence\": " + sequence);
                    if (workMs > 0) {
                        Thread.sleep(workMs);
                    }
                }
            }
        } catch (WakeupException e) {
            // told to leave
        } finally {
            consumer.close();
            closed.countDown();
        }
    }

    private static void subscribe(KafkaConsumer<byte[], byte[]> consumer, String topics) {
        ConsumerRebalanceListener listener = new ConsumerRebalanceListener() {
            @Override
            public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
                writeAll("assigned", partitions);
            }

            @Override
            public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
                writeAll("revoked", partitions);
            }

            @Override
            public void onPartitionsLost(Collection<TopicPartition> partitions) {
                writeAll("revoked", partitions);
            }
        };
        if (topics.startsWith("pattern:")) {
            consumer.subscribe(Pattern.compile(topics.substring("pattern:".length())), listener);
        } else {
            consumer.subscribe(Arrays.asList(topics.split(",")), listener);
        }
    }

    private static void writeAll(String kind, Collection<TopicPartition> partitions) {
        for (TopicPartition partition : partitions) {
            write(kind, partition.topic(), partition.partition(), "");
        }
    }

    /** Topic names have no character that JSON would want escaped. */
    private static void write(String kind, String topic, int partition, String more) {
        String line = "{\"kind\": \"" + kind + "\", \"time_ms\": " + System.currentTimeMillis()
            + ", \"topic\": \"" + topic + "\", \"partition\": " + partition + more + "}\n";
        try {
            lines.write(line.getBytes(StandardCharsets.UTF_8));
        } catch (java.io.IOException e) {
            throw new java.io.UncheckedIOException(e);
        }
    }

    private static String historyOf(Path settings) throws java.io.IOException {
        Matcher found = Pattern.compile("\"history\": \"([^\"]*)\"").matcher(Files.readString(settings));
        if (!found.find()) {
            throw new IllegalArgumentException(settings + " does not name a history");
        }
        return found.group(1);
    }
}
