// Writes records with the producer of 1.1.1 or 3.9.1. Arguments: broker, topic, codec, and plain | headers | transactions.
// Run by record.py.
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;

public class Produce {
    static final long FIRST_TIMESTAMP = 1500000000000L;

    public static void main(String[] arguments) throws Exception {
        String topic = arguments[1], kind = arguments[3];
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("compression.type", arguments[2]);
        settings.put("linger.ms", "300"); // so that what is sent together becomes one batch
        if (kind.equals("transactions")) settings.put("transactional.id", "recorded");
        else settings.put("enable.idempotence", "false");
        settings.put("key.serializer", "org.apache.kafka.common.serialization.ByteArraySerializer");
        settings.put("value.serializer", "org.apache.kafka.common.serialization.ByteArraySerializer");
        KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings);
        if (kind.equals("transactions")) producer.initTransactions();
        int count = 0;
        for (byte[][][] together : content()) {
            if (kind.equals("transactions")) producer.beginTransaction();
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (byte[][] pair : together) {
                ProducerRecord<byte[], byte[]> record =
                    new ProducerRecord<>(topic, 0, FIRST_TIMESTAMP + 7 * (count % 5), pair[0], pair[1]);
                if (kind.equals("headers")) {
                    record.headers().add("count", b(Integer.toString(count))).add("null", null);
                    record.headers().add("", b("")).add("é", b("ü"));
                }
                sent.add(producer.send(record));
                count++;
            }
            producer.flush();
            for (Future<RecordMetadata> one : sent) one.get();
            if (kind.equals("transactions")) {
                if (count == 8) producer.abortTransaction();
                else producer.commitTransaction();
            }
        }
        producer.close();
    }

    static byte[][][][] content() {
        byte[] all = new byte[256];
        for (int i = 0; i < 256; i++) all[i] = (byte) i;
        byte[] even = new byte[700];
        return new byte[][][][] {
            {{b("k0"), b("value 0")}, {null, b("no key")}, {b("no value"), null}, {null, null}, {b(""), b("")}},
            {{b("all bytes"), all}, {b("even"), even}, {b("last"), b("value 7")}},
            {{b("alone"), b("value 8")}},
        };
    }

    static byte[] b(String text) {
        return text.getBytes(java.nio.charset.StandardCharsets.UTF_8);
    }
}
