// Prints a message set as Kafka 3.9.1's own classes read it, as JSON. Argument: file, one after the other.
// Run by record.py.
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.Record;
import org.apache.kafka.common.record.MutableRecordBatch;

public class Dump {
    public static void main(String[] arguments) throws Exception {
        for (String file : arguments) {
            List<String> lines = new ArrayList<>();
            byte[] data = Files.readAllBytes(Path.of(file));
            for (MutableRecordBatch batch : MemoryRecords.readableRecords(ByteBuffer.wrap(data)).batches())
                lines.add(json(batch));
            Files.writeString(Path.of(file.replace(".bin", ".json")), "[\n" + String.join(",\n", lines) + "\n]\n");
        }
    }

    static String json(MutableRecordBatch batch) {
        List<String> records = new ArrayList<>();
        for (Record record : batch) {
            List<String> headers = new ArrayList<>();
            for (Header header : record.headers())
                headers.add("[\"" + header.key() + "\", " + hex(header.value()) + "]");
            records.add(String.format(
                "   {\"offset\": %d, \"timestamp_ms\": %d, \"key\": %s, \"value\": %s, \"headers\": [%s]}",
                record.offset(), record.timestamp(),
                hex(bytes(record.key())), hex(bytes(record.value())), String.join(", ", headers)));
        }
        return String.format(
            " {\"magic\": %d, \"codec\": \"%s\", \"last_offset\": %d, \"size\": %d, \"control\": %b,"
            + " \"timestamp_type\": %d, \"records\": [\n%s]}",
            batch.magic(), batch.compressionType().name, batch.lastOffset(), batch.sizeInBytes(),
            batch.isControlBatch(), batch.timestampType().id, String.join(",\n", records));
    }

    static byte[] bytes(ByteBuffer buffer) {
        if (buffer == null) return null;
        byte[] result = new byte[buffer.remaining()];
        buffer.duplicate().get(result);
        return result;
    }

    static String hex(byte[] data) {
        return data == null ? "null" : '"' + HexFormat.of().formatHex(data) + '"';
    }
}
