import java.io.DataInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.lang.reflect.InvocationTargetException;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.Callable;

/**
 * Entry point of the images that zkconsumer.testing.images makes. They hold no shell, so this does what a start script
 * does: turns environment variables into the configuration file, then calls the server's own main in the same process.
 *
 *   ContainerMain zookeeper           ZOO_* variables, as Docker's official zookeeper image understands them
 *   ContainerMain kafka               KAFKA_SOME_KEY=value becomes some.key=value
 *   ContainerMain health zookeeper    exit code 0 if the server in this container serves requests
 *   ContainerMain health kafka        exit code 0 if the broker in this container knows of a living broker (or is a
 *                                     0.8 without topics, which answers but knows of none)
 *
 * A configuration file that is there already (mounted, or from the container's last start) is used as it is.
 * Options for the Java machine go into JDK_JAVA_OPTIONS, which java reads by itself.
 */
public final class ContainerMain {
    private static final Path CONFIGURATION = Path.of("/conf");
    private static final String DATA = "/data";
    private static final int TIMEOUT_MS = 5000;

    /** Variables of Kafka's start scripts and of other images: not settings of the broker. */
    private static final Set<String> NOT_KAFKA_SETTINGS = Set.of("KAFKA_OPTS", "KAFKA_HEAP_OPTS", "KAFKA_GC_LOG_OPTS",
        "KAFKA_JVM_PERFORMANCE_OPTS", "KAFKA_JMX_OPTS", "KAFKA_LOG4J_OPTS", "KAFKA_HOME", "KAFKA_VERSION");

    public static void main(String[] arguments) throws Throwable {
        // As the image's /bin/sh it gets "/bin/sh", "-c" and one text, as its entry point only separate words.
        boolean asShell = arguments.length == 3 && arguments[1].equals("-c");
        String command = (asShell ? arguments[2] : String.join(" ", arguments)).trim().replaceAll("\\s+", " ");
        Map<String, String> environment = System.getenv();
        switch (command) {
            case "zookeeper": runZooKeeper(environment); break;
            case "kafka": runKafka(environment); break;
            case "health zookeeper": tell(() -> zooKeeperServes(zooKeeperPort(environment))); break;
            case "health kafka": tell(() -> kafkaServes(kafkaPort(environment))); break;
            default:
                System.err.println("ContainerMain: expected [health] zookeeper|kafka, got: " + command);
                System.exit(2);
        }
    }

    private static void runZooKeeper(Map<String, String> environment) throws Throwable {
        Path myId = Path.of(DATA, "myid");
        if (!Files.exists(myId)) {
            Files.writeString(myId, environment.getOrDefault("ZOO_MY_ID", "1") + "\n");
        }
        Path file = writeUnlessThere("zoo.cfg", zooKeeperSettings(environment));
        callMain("org.apache.zookeeper.server.quorum.QuorumPeerMain", file);   // alone if the file names no peers
    }

    private static Map<String, String> zooKeeperSettings(Map<String, String> environment) {
        Map<String, String> settings = new LinkedHashMap<>();
        settings.put("dataDir", DATA);
        settings.put("tickTime", environment.getOrDefault("ZOO_TICK_TIME", "2000"));
        settings.put("initLimit", environment.getOrDefault("ZOO_INIT_LIMIT", "5"));
        settings.put("syncLimit", environment.getOrDefault("ZOO_SYNC_LIMIT", "2"));
        settings.put("maxClientCnxns", environment.getOrDefault("ZOO_MAX_CLIENT_CNXNS", "60"));
        settings.put("autopurge.snapRetainCount", environment.getOrDefault("ZOO_AUTOPURGE_SNAPRETAINCOUNT", "3"));
        settings.put("autopurge.purgeInterval", environment.getOrDefault("ZOO_AUTOPURGE_PURGEINTERVAL", "0"));
        settings.put("standaloneEnabled", environment.getOrDefault("ZOO_STANDALONE_ENABLED", "true"));
        // Unlike the official image: off unless asked for, and without effect then, since the jars have no web server.
        settings.put("admin.enableServer", environment.getOrDefault("ZOO_ADMINSERVER_ENABLED", "false"));
        String allowed = environment.getOrDefault("ZOO_4LW_COMMANDS_WHITELIST", "");
        if (!allowed.isBlank()) {
            settings.put("4lw.commands.whitelist", allowed);
        }
        if (environment.getOrDefault("ZOO_SERVERS", "").isBlank()) {
            settings.put("clientPort", "2181");
        }
        putWords(settings, environment.getOrDefault("ZOO_SERVERS", ""));
        putWords(settings, environment.getOrDefault("ZOO_CFG_EXTRA", ""));
        return settings;
    }

    /** Adds "key=value key=value", separated by blanks or line ends. */
    private static void putWords(Map<String, String> settings, String words) {
        for (String word : words.trim().split("\\s+")) {
            int equals = word.indexOf('=');
            if (equals > 0) {
                settings.put(word.substring(0, equals), word.substring(equals + 1));
            } else if (!word.isEmpty()) {
                throw new IllegalArgumentException("expected key=value in ZOO_SERVERS and ZOO_CFG_EXTRA, got: " + word);
            }
        }
    }

    private static int zooKeeperPort(Map<String, String> environment) {
        Map<String, String> settings = zooKeeperSettings(environment);
        String me = settings.getOrDefault("server." + environment.getOrDefault("ZOO_MY_ID", "1"), "");
        if (me.contains(";")) {                                     // host:2888:3888;[address:]port
            return portAtEnd(me.substring(me.indexOf(';')));
        }
        return Integer.parseInt(settings.getOrDefault("clientPort", "2181"));
    }

    /** "srvr" tells more than "ruok", a mode if it serves, and is allowed unless a list of words lacks it. */
    private static boolean zooKeeperServes(int port) throws IOException {
        String answer = fourLetters(port, "srvr");
        boolean forbidden = answer.contains("not in the whitelist");
        return answer.contains("Mode: ") || forbidden && fourLetters(port, "ruok").equals("imok");
    }

    private static String fourLetters(int port, String word) throws IOException {
        try (Socket socket = connect(port)) {
            socket.getOutputStream().write(word.getBytes(StandardCharsets.US_ASCII));
            InputStream answer = socket.getInputStream();
            return new String(answer.readAllBytes(), StandardCharsets.UTF_8);
        }
    }

    private static void runKafka(Map<String, String> environment) throws Throwable {
        for (String name : NOT_KAFKA_SETTINGS) {
            if (name.endsWith("_OPTS") && environment.containsKey(name)) {
                System.err.println("ContainerMain: " + name + " is ignored: use JDK_JAVA_OPTIONS");
            }
        }
        callMain("kafka.Kafka", writeUnlessThere("server.properties", kafkaSettings(environment)));
    }

    private static Map<String, String> kafkaSettings(Map<String, String> environment) {
        Map<String, String> settings = new TreeMap<>();
        settings.put("broker.id", "0");
        settings.put("log.dirs", DATA);
        settings.put("zookeeper.connect", "zookeeper:2181");
        environment.forEach((name, value) -> {
            if (name.startsWith("KAFKA_") && !NOT_KAFKA_SETTINGS.contains(name)) {
                settings.put(name.substring("KAFKA_".length()).toLowerCase(Locale.ROOT).replace('_', '.'), value);
            }
        });
        return settings;
    }

    private static int kafkaPort(Map<String, String> environment) {
        Map<String, String> settings = kafkaSettings(environment);
        String listeners = settings.getOrDefault("listeners", "");  // PLAINTEXT://0.0.0.0:9092,...; 0.8 knows only port
        return portAtEnd(listeners.isBlank() ? settings.getOrDefault("port", "9092") : listeners.split(",")[0]);
    }

    /** Asks for metadata, version 0, known from 0.8.2.2 to 3.9: an open port is not yet a broker with a controller. */
    private static boolean kafkaServes(int port) throws IOException {
        try (Socket socket = connect(port)) {
            ByteBuffer request = ByteBuffer.allocate(18);
            request.putInt(14).putShort((short) 3).putShort((short) 0).putInt(1);   // size, metadata, version, number
            request.putShort((short) 0).putInt(0);                                  // client "", all topics, creates none
            OutputStream out = socket.getOutputStream();
            out.write(request.array(), 0, request.position());
            DataInputStream answer = new DataInputStream(socket.getInputStream());
            answer.readInt();                                                       // size
            answer.readInt();                                                       // number of the request
            boolean knowsBrokers = answer.readInt() > 0;
            return knowsBrokers || learnsBrokersWithTopics() && answer.readInt() == 0;   // number of topics
        }
    }

    /** In 0.8 the controller tells of living brokers only together with partitions: with no topic there are none. */
    private static boolean learnsBrokersWithTopics() {
        return System.getenv().getOrDefault("CLASSPATH", "").matches(".*/kafka_[^/]*-0\\.8[^/]*\\.jar.*");
    }

    private static Socket connect(int port) throws IOException {
        Socket socket = new Socket();
        socket.setSoTimeout(TIMEOUT_MS);
        socket.connect(new InetSocketAddress("127.0.0.1", port), TIMEOUT_MS);
        return socket;
    }

    private static int portAtEnd(String address) {
        return Integer.parseInt(address.replaceFirst(".*[:;]", "").trim());
    }

    private static Path writeUnlessThere(String name, Map<String, String> settings) throws IOException {
        Path file = CONFIGURATION.resolve(name);
        if (!Files.exists(file)) {
            StringBuilder text = new StringBuilder();
            settings.forEach((key, value) -> {
                String escaped = value.replace("\\", "\\\\").replace("\n", "\\n");
                text.append(key).append('=').append(escaped).append('\n');
            });
            Files.writeString(file, text);
        }
        return file;
    }

    private static void callMain(String className, Path file) throws Throwable {
        try {
            String[] arguments = {file.toString()};
            Class.forName(className).getMethod("main", String[].class).invoke(null, (Object) arguments);
        } catch (InvocationTargetException e) {
            throw e.getCause();
        }
    }

    private static void tell(Callable<Boolean> check) {
        try {
            boolean healthy = check.call();
            System.out.println(healthy ? "serves requests" : "does not serve requests yet");
            System.exit(healthy ? 0 : 1);
        } catch (Exception e) {
            System.out.println("does not answer: " + e);
            System.exit(1);
        }
    }
}
