import java.lang.reflect.Field;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.common.config.ConfigDef;

/** Prints what the consumer of the kafka-clients beside it takes for a setting nobody gave: a line "key, tab, value" each. */
public class Defaults {
    public static void main(String[] args) throws Exception {
        Field settings = ConsumerConfig.class.getDeclaredField("CONFIG");
        settings.setAccessible(true);
        ConfigDef defined = (ConfigDef) settings.get(null);
        Map<String, Object> defaults = new TreeMap<>(defined.defaultValues());
        for (String key : new TreeMap<>(defined.configKeys()).keySet())
            System.out.println(key + "\t" + (defaults.containsKey(key) ? defaults.get(key) : "(required)"));
    }
}
