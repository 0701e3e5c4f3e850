import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Properties;
import kafka.consumer.Consumer;
import kafka.consumer.ConsumerConfig;
import kafka.javaapi.consumer.ConsumerConnector;

/**
 * Members of the Scala consumer, joining and leaving a group all at once: BenchSettling key=value...
 *
 * Takes the commands of tests/bench/settling.py and answers each with a line.
 */
public final class BenchSettling {
    private static final List<ConsumerConnector> members = new ArrayList<>();
    private static int joined;

    public static void main(String[] arguments) throws Exception {
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            String[] words = line.split(" ");
            if (words[0].equals("connect")) {
                connect(arguments, words[1], Integer.parseInt(words[2]), Integer.parseInt(words[3]));
            } else if (words[0].equals("join")) {
                inParallel(joined, member -> member.createMessageStreams(
                    Collections.singletonMap(words[1], Integer.valueOf(words[2]))));
                joined = members.size();
            } else {
                for (Thread thread : inParallel(0, ConsumerConnector::shutdown)) {
                    thread.join();
                }
                members.clear();
                joined = 0;
            }
            System.out.println("done");
            System.out.flush();
        }
        System.exit(0);
    }

    private static void connect(String[] arguments, String group, int first, int end) {
        for (int i = first; i < end; i++) {
            Properties settings = new Properties();
            for (String argument : Arrays.asList(arguments)) {
                String[] keyAndValue = argument.split("=", 2);
                settings.put(keyAndValue[0], keyAndValue[1]);
            }
            settings.put("group.id", group);
            settings.put("consumer.id", String.format("m%02d", i));
            members.add(Consumer.createJavaConsumerConnector(new ConsumerConfig(settings)));
        }
    }

    private interface Step {
        void take(ConsumerConnector member);
    }

    private static List<Thread> inParallel(int first, Step step) {
        List<Thread> threads = new ArrayList<>();
        for (ConsumerConnector member : members.subList(first, members.size())) {
            Thread thread = new Thread(() -> step.take(member));
            thread.setDaemon(true);
            thread.start();
            threads.add(thread);
        }
        return threads;
    }
}
