import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;

/**
 * Sends records with the Java producer of the release on the class path (0.8.2 and later have the same calls).
 *
 *   JavaProducer TOPIC key=value...    the rest are settings of the producer
 *
 * Standard input: the number of records; for each its partition (-1: the producer chooses), key and value. Numbers are
 * four bytes; key and value are their length (-1: null) and their bytes. Standard output: partition (four bytes) and
 * offset (eight bytes) of each record, in that order, when all have been acknowledged.
 */
public final class JavaProducer {
    public static void main(String[] arguments) throws Exception {
        String topic = arguments[0];
        Map<String, Object> settings = new HashMap<>();
        for (int i = 1; i < arguments.length; i++) {
            String[] keyAndValue = arguments[i].split("=", 2);
            settings.put(keyAndValue[0], keyAndValue[1]);
        }
        // Not System.out: a logging library may write there.
        DataOutputStream out = new DataOutputStream(
            new BufferedOutputStream(new FileOutputStream(FileDescriptor.out)));
        DataInputStream in = new DataInputStream(new BufferedInputStream(System.in));
        KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings);
        try {
            int count = in.readInt();
            List<Future<RecordMetadata>> sent = new ArrayList<>(count);
            for (int i = 0; i < count; i++) {
                int partition = in.readInt();
                byte[] key = readBytes(in);
                byte[] value = readBytes(in);
                sent.add(producer.send(new ProducerRecord<>(topic, partition < 0 ? null : partition, key, value)));
            }
            for (Future<RecordMetadata> future : sent) {
                RecordMetadata stored = future.get();
                out.writeInt(stored.partition());
                out.writeLong(stored.offset());
            }
        } finally {
            producer.close();
        }
        out.flush();
    }

    private static byte[] readBytes(DataInputStream in) throws Exception {
        int length = in.readInt();
        if (length < 0) {
            return null;
        }
        byte[] bytes = new byte[length];
        in.readFully(bytes);
        return bytes;
    }
}
