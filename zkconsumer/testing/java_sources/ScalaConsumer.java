import java.io.BufferedReader;
import java.io.FileReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.lang.invoke.VarHandle;
import java.lang.management.ManagementFactory;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.net.URLDecoder;
import java.net.URLEncoder;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeSet;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Callable;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.LinkedBlockingQueue;
import javax.management.ObjectName;
import kafka.common.TopicAndPartition;
import kafka.consumer.AssignmentContext;
import kafka.consumer.Blacklist;
import kafka.consumer.Consumer;
import kafka.consumer.ConsumerConfig;
import kafka.consumer.ConsumerIterator;
import kafka.consumer.ConsumerTimeoutException;
import kafka.consumer.KafkaStream;
import kafka.consumer.PartitionAssignor;
import kafka.consumer.PartitionAssignor$;
import kafka.consumer.TopicFilter;
import kafka.consumer.Whitelist;
import kafka.javaapi.consumer.ConsumerConnector;
import kafka.message.MessageAndMetadata;
import kafka.serializer.Decoder;
import kafka.serializer.DefaultDecoder;
import kafka.serializer.StringDecoder;
import kafka.utils.Pool;
import org.I0Itec.zkclient.ZkClient;
import org.I0Itec.zkclient.ZkConnection;
import org.apache.zookeeper.ZooKeeper;
import scala.Tuple2;
import scala.collection.Iterable;
import scala.collection.Iterator;

/**
 * The real high-level consumer, driven line by line: ScalaConsumer consumer.properties delivered.bin values|no-values.
 *
 * In (standard input):   ID COMMAND WORD…            every word in URL encoding
 * Out (standard output): ID ok WORD…                 one answer to each command, in the order in which they end
 *                        ID error CLASS MESSAGE TRACE
 *                        event NAME MILLISECONDS WORD…
 *
 * Each command has a thread of its own, so that one that hangs (as a consumer may) holds up nothing else; those that
 * use a stream run in that stream's only thread, in order. What is delivered goes to a file, see Deliveries.
 */
public class ScalaConsumer {
    private final PrintStream out = System.out;
    private final Properties properties;
    private final Deliveries deliveries;
    private final List<Reader> readers = new CopyOnWriteArrayList<>();
    private volatile boolean readAtOnce;
    protected volatile ConsumerConnector connector;

    protected ScalaConsumer(String[] arguments) throws IOException {
        properties = new Properties();
        try (FileReader file = new FileReader(arguments[0], StandardCharsets.UTF_8)) {
            properties.load(file);
        }
        deliveries = new Deliveries(arguments[1], arguments[2].equals("values"));
    }

    public static void main(String[] arguments) throws Exception {
        new ScalaConsumer(arguments).serve();
    }

    protected void serve() throws IOException {
        // Kafka's classes may print; standard output is for answers only.
        System.setOut(System.err);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = decoded(line.split(" ", -1));
            String[] rest = Arrays.copyOfRange(words, 2, words.length);
            if (words[1].equals("quit")) {
                say(words[0], "ok");
                break;
            }
            start(words[0], words[1], rest);
        }
        // Not exit(): nothing is to happen that was not asked for.
        Runtime.getRuntime().halt(0);
    }

    private void start(String id, String command, String[] words) {
        Callable<Object[]> work = () -> run(command, words);
        switch (command) {
            case "has_next": case "peek": case "take": case "text":
                int index = Integer.parseInt(words[0]);
                if (index >= readers.size()) {
                    answer(id, () -> {
                        throw new IndexOutOfBoundsException("no stream " + index + ", there are " + readers.size());
                    });
                } else {
                    readers.get(index).steps.add(() -> answer(id, work));
                }
                break;
            default:
                Thread thread = new Thread(() -> answer(id, work), "command-" + command);
                thread.setDaemon(true);
                thread.start();
        }
    }

    /** What both releases can do. */
    protected Object[] run(String command, String[] words) throws Exception {
        switch (command) {
            case "connect":
                connector = Consumer.createJavaConsumerConnector(new ConsumerConfig(properties));
                return new Object[] {invoke(underlying(), "consumerIdString")};
            case "create": return create(words);
            case "create_null":
                connector.createMessageStreams(null);
                return new Object[] {};
            case "read":
                setReading(words, true);
                return new Object[] {};
            case "hold":
                setReading(words, false);
                return new Object[] {};
            case "has_next": return new Object[] {reader(words).iterator.hasNext()};
            case "peek": return new Object[] {reader(words).iterator.peek().offset()};
            case "take":
                for (int left = Integer.parseInt(words[1]); left > 0; left--) reader(words).deliver();
                return new Object[] {deliveries.count()};
            case "text": return new Object[] {reader(words).stream.toString()};
            case "commit":
                if (words.length == 0) connector.commitOffsets();
                else connector.commitOffsets(Boolean.parseBoolean(words[0]));
                return new Object[] {};
            case "shutdown":
                if (connector != null) connector.shutdown();
                return new Object[] {};
            case "session": return session();
            case "assign": return assign(words[0], words[1], words[2], Boolean.parseBoolean(words[3]));
            case "threads":
                TreeSet<String> names = new TreeSet<>();
                for (Thread thread : Thread.getAllStackTraces().keySet()) names.add(thread.getName());
                return names.toArray();
            case "metrics":
                TreeSet<String> found = new TreeSet<>();
                for (ObjectName name : ManagementFactory.getPlatformMBeanServer().queryNames(new ObjectName(words[0]), null))
                    found.add(name.toString());
                return found.toArray();
            case "metric":
                return new Object[] {
                    ManagementFactory.getPlatformMBeanServer().getAttribute(new ObjectName(words[0]), words[1])};
            default: throw new UnsupportedOperationException("this release's consumer cannot " + command);
        }
    }

    // --- streams ---

    /** Words: read|hold, decoder, then static (TOPIC COUNT)… or white_list|black_list REGEX COUNT. */
    private Object[] create(String[] words) throws Exception {
        readAtOnce = words[0].equals("read");
        Decoder<Object> key = decoder(words[1]);
        Decoder<Object> value = decoder(words[1]);
        List<Reader> created = new ArrayList<>();
        if (words[2].equals("static")) {
            Map<String, Integer> counts = new LinkedHashMap<>();
            for (int i = 3; i < words.length; i += 2) counts.put(words[i], Integer.valueOf(words[i + 1]));
            Map<String, List<KafkaStream<Object, Object>>> streams =
                connector.createMessageStreams(new HashMap<>(counts), key, value);
            for (String topic : counts.keySet())
                for (KafkaStream<Object, Object> stream : streams.get(topic)) created.add(new Reader(topic, stream));
        } else {
            TopicFilter filter = words[2].equals("white_list") ? new Whitelist(words[3]) : new Blacklist(words[3]);
            for (KafkaStream<Object, Object> stream
                    : connector.createMessageStreamsByFilter(filter, Integer.parseInt(words[4]), key, value))
                created.add(new Reader("", stream));
        }
        for (Reader reader : created) reader.begin();
        return created.stream().map(reader -> reader.topic).toArray();
    }

    @SuppressWarnings("unchecked")
    private static Decoder<Object> decoder(String name) {
        switch (name) {
            case "bytes": return (Decoder<Object>) (Object) new DefaultDecoder(null);
            case "string": return (Decoder<Object>) (Object) new StringDecoder(null);
            case "failing": return bytes -> { throw new UnsupportedOperationException("this decoder always fails"); };
            default: throw new IllegalArgumentException("no decoder " + name);
        }
    }

    private Reader reader(String[] words) {
        return readers.get(Integer.parseInt(words[0]));
    }

    private void setReading(String[] words, boolean reading) {
        for (Reader reader : words.length > 0 ? List.of(reader(words)) : readers) reader.setReading(reading);
    }

    /** One stream and the thread that alone uses its iterator, as an application's would. */
    private class Reader implements Runnable {
        final String topic;
        final KafkaStream<Object, Object> stream;
        final ConsumerIterator<Object, Object> iterator;
        final BlockingQueue<Runnable> steps = new LinkedBlockingQueue<>();
        int index;
        private boolean reading;

        Reader(String topic, KafkaStream<Object, Object> stream) {
            this.topic = topic;
            this.stream = stream;
            this.iterator = stream.iterator();
        }

        void begin() {
            index = readers.size();
            reading = readAtOnce;
            readers.add(this);
            Thread thread = new Thread(this, "reader-" + index);
            thread.setDaemon(true);
            thread.start();
        }

        /** After setReading(false) has returned nothing more is taken, though an item may be READY. */
        synchronized void setReading(boolean value) {
            reading = value;
            steps.add(() -> { });
        }

        private synchronized boolean isReading() {
            return reading;
        }

        private synchronized void deliverIfReading() throws IOException {
            if (reading) deliver();
        }

        void deliver() throws IOException {
            MessageAndMetadata<Object, Object> message = iterator.next();
            try {
                deliveries.add(index, message, bytes(message.key()), bytes(message.message()));
            } catch (UnsupportedOperationException e) {
                deliveries.add(index, message, null, null);
                event("decoding_failed", index, message.topic(), message.partition(), message.offset(), e.getMessage());
            }
        }

        @Override
        public void run() {
            try {
                while (true) {
                    Runnable step = isReading() ? steps.poll() : steps.take();
                    if (step != null) step.run();
                    else if (isReading()) readOne();
                }
            } catch (InterruptedException e) {
                event("interrupted", index);
            }
        }

        private void readOne() {
            try {
                if (iterator.hasNext()) {
                    deliverIfReading();
                } else {
                    setReading(false);
                    event("ended", index);
                }
            } catch (ConsumerTimeoutException e) {
                event("timeout", index);
            } catch (Throwable e) {
                setReading(false);
                event("failed", index, e.getClass().getName(), String.valueOf(e.getMessage()));
            }
        }
    }

    private static byte[] bytes(Object decoded) {
        return decoded instanceof String text ? text.getBytes(StandardCharsets.UTF_8) : (byte[]) decoded;
    }

    /**
     * The file of what was delivered, in order over all streams. It is mapped into memory: what was delivered is told
     * even by a consumer that is killed the next moment, and telling it needs no system call.
     *
     * A record, padded to a multiple of four bytes: its size (4 bytes, written last: 0 means not there yet), stream (2),
     * topic number (2), partition (4), offset (8), milliseconds (8), length of key (4) and of value (4; -1 null, -2 not
     * reported), key, value. Stream -1 names a topic: its number, and its name as key.
     */
    private static class Deliveries {
        private static final int HEADER = 36;
        private static final int WINDOW = 1 << 18;
        private static final int NO_VALUE = -1;
        private static final int NOT_REPORTED = -2;

        private final FileChannel file;
        private final boolean reportValues;
        private final Map<String, Integer> topics = new HashMap<>();
        private long windowStart;
        private MappedByteBuffer window;
        private long count;

        Deliveries(String path, boolean reportValues) throws IOException {
            this.file = FileChannel.open(
                Path.of(path), StandardOpenOption.CREATE, StandardOpenOption.READ, StandardOpenOption.WRITE);
            this.window = file.map(FileChannel.MapMode.READ_WRITE, 0, WINDOW);
            this.reportValues = reportValues;
        }

        synchronized long count() {
            return count;
        }

        synchronized void add(int stream, MessageAndMetadata<?, ?> message, byte[] key, byte[] value) throws IOException {
            Integer topic = topics.get(message.topic());
            if (topic == null) {
                topic = topics.size();
                topics.put(message.topic(), topic);
                write(-1, topic, 0, 0L, message.topic().getBytes(StandardCharsets.UTF_8), null, NO_VALUE);
            }
            int length = !reportValues ? NOT_REPORTED : value == null ? NO_VALUE : value.length;
            write(stream, topic, message.partition(), message.offset(), key, value, length);
            count++;
        }

        private void write(int stream, int topic, int partition, long offset, byte[] key, byte[] value, int length)
                throws IOException {
            int size = HEADER + (key == null ? 0 : key.length) + Math.max(length, 0) + 3 & ~3;
            if (window.remaining() < size) {
                windowStart += window.position();
                window = file.map(FileChannel.MapMode.READ_WRITE, windowStart, Math.max(WINDOW, size));
            }
            int start = window.position();
            window.putInt(0).putShort((short) stream).putShort((short) topic).putInt(partition).putLong(offset);
            window.putLong(System.currentTimeMillis()).putInt(key == null ? NO_VALUE : key.length).putInt(length);
            if (key != null) window.put(key);
            if (length > 0) window.put(value);
            window.position(start + size);
            VarHandle.releaseFence();
            window.putInt(start, size);
        }
    }

    // --- the connector's inside: what no public method tells ---

    protected Object underlying() throws Exception {
        return invoke(connector, "underlying");
    }

    /** Session id and password: with them a test can let the session expire on the server. */
    private Object[] session() throws Exception {
        Field connection = ZkClient.class.getDeclaredField("_connection");
        connection.setAccessible(true);
        ZooKeeper zooKeeper = ((ZkConnection) connection.get(zkClient())).getZookeeper();
        String password = HexFormat.of().formatHex(zooKeeper.getSessionPasswd());
        return new Object[] {zooKeeper.getSessionId(), password};
    }

    /** What this release's own assignor gives a member of any group, from what is in ZooKeeper now. */
    @SuppressWarnings("unchecked")
    private Object[] assign(String strategy, String group, String consumer, boolean excludeInternal) throws Exception {
        PartitionAssignor assignor = PartitionAssignor$.MODULE$.createInstance(strategy);
        Object context = AssignmentContext.class.getConstructors()[0].newInstance(group, consumer, excludeInternal, zooKeeper());
        Object result = PartitionAssignor.class.getMethod("assign", AssignmentContext.class).invoke(assignor, context);
        // Up to 0.8.2 the member's own partitions, from 0.9 those of all members.
        if (result instanceof Pool<?, ?>) result = ((Pool<Object, Object>) result).get(consumer);
        List<Object> words = new ArrayList<>();
        if (result != null)
            for (Iterator<?> i = ((Iterable<?>) result).iterator(); i.hasNext(); ) {
                Tuple2<?, ?> entry = (Tuple2<?, ?>) i.next();
                TopicAndPartition partition = (TopicAndPartition) entry._1();
                words.addAll(List.of(partition.topic(), partition.partition(), entry._2()));
            }
        return words.toArray();
    }

    /** What this release hands around to reach ZooKeeper. */
    protected Object zooKeeper() throws Exception {
        return invoke(underlying(), "kafka$consumer$ZookeeperConsumerConnector$$zkClient");
    }

    protected ZkClient zkClient() throws Exception {
        return (ZkClient) zooKeeper();
    }

    protected static Object invoke(Object target, String name) throws Exception {
        Method method = target.getClass().getDeclaredMethod(name);
        method.setAccessible(true);
        return method.invoke(target);
    }

    // --- answers and events ---

    private void answer(String id, Callable<Object[]> work) {
        try {
            say(id, "ok", work.call());
        } catch (Throwable e) {
            Throwable cause = e instanceof InvocationTargetException ? e.getCause() : e;
            StringWriter trace = new StringWriter();
            cause.printStackTrace(new PrintWriter(trace, true));
            say(id, "error", cause.getClass().getName(), String.valueOf(cause.getMessage()), trace);
        }
    }

    protected void event(String name, Object... words) {
        Object[] all = new Object[words.length + 1];
        all[0] = System.currentTimeMillis();
        System.arraycopy(words, 0, all, 1, words.length);
        say("event", name, all);
    }

    private void say(String first, String second, Object... words) {
        StringBuilder line = new StringBuilder(first).append(' ').append(second);
        for (Object word : words)
            line.append(' ').append(URLEncoder.encode(String.valueOf(word), StandardCharsets.UTF_8));
        synchronized (out) {
            out.append(line.append('\n'));
            out.flush();
        }
    }

    private static String[] decoded(String[] words) {
        return Arrays.stream(words).map(word -> URLDecoder.decode(word, StandardCharsets.UTF_8)).toArray(String[]::new);
    }
}
