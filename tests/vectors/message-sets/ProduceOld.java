// Writes records with the producer of 0.8.2.2. Arguments: broker, topic, codec.
// Run by record.py.
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;

public class ProduceOld {
    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("compression.type", arguments[2]);
        settings.put("linger.ms", "300"); // so that what is sent together becomes one set
        settings.put("key.serializer", "org.apache.kafka.common.serialization.ByteArraySerializer");
        settings.put("value.serializer", "org.apache.kafka.common.serialization.ByteArraySerializer");
        KafkaProducer<byte[], byte[]> producer = new KafkaProducer<byte[], byte[]>(settings);
        for (byte[][][] together : content()) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (byte[][] record : together)
                sent.add(producer.send(new ProducerRecord<byte[], byte[]>(arguments[1], 0, record[0], record[1])));
            for (Future<RecordMetadata> one : sent) one.get();
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
