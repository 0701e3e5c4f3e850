import java.nio.charset.StandardCharsets;
import java.io.PrintStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Pattern;
import java.util.regex.PatternSyntaxException;

/**
 * Which names each pattern matches as a whole, as JSON: {"java": …, "names": […], "patterns": [[pattern, null or [indices of names]], …]}.
 * Arguments: a file of patterns and a file of names, one a line, with \n, \r, \t, \\uXXXX of JSON texts for what a line cannot hold.
 */
public class JavaRegexTable {
    public static void main(String[] files) throws Exception {
        List<String> patterns = read(files[0]);
        List<String> names = read(files[1]);
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        out.println("{\"java\": " + quoted(System.getProperty("java.version")) + ",");
        out.println(" \"names\": [" + String.join(", ", names.stream().map(JavaRegexTable::quoted).toList()) + "],");
        out.println(" \"patterns\": [");
        for (int i = 0; i < patterns.size(); i++) {
            out.println("  [" + quoted(patterns.get(i)) + ", " + row(patterns.get(i), names) + "]" + (i + 1 < patterns.size() ? "," : ""));
        }
        out.println(" ]}");
        out.flush();
    }

    private static String row(String pattern, List<String> names) {
        Pattern compiled;
        try {
            compiled = Pattern.compile(pattern);
        } catch (PatternSyntaxException e) {
            return "null";
        }
        List<String> matching = new ArrayList<>();
        for (int i = 0; i < names.size(); i++) {
            if (compiled.matcher(names.get(i)).matches()) {
                matching.add(Integer.toString(i));
            }
        }
        return "[" + String.join(", ", matching) + "]";
    }

    private static List<String> read(String file) throws Exception {
        List<String> lines = new ArrayList<>();
        for (String line : Files.readString(Path.of(file)).split("\n")) {
            lines.add(unquoted(line));
        }
        return lines;
    }

    /** A JSON text without its quotes. */
    private static String unquoted(String line) {
        StringBuilder text = new StringBuilder();
        for (int i = 0; i < line.length(); i++) {
            char c = line.charAt(i);
            if (c == '\\') {
                c = line.charAt(++i);
                switch (c) {
                    case 'n': c = '\n'; break;
                    case 'r': c = '\r'; break;
                    case 't': c = '\t'; break;
                    case 'b': c = '\b'; break;
                    case 'f': c = '\f'; break;
                    case 'u': c = (char) Integer.parseInt(line.substring(i + 1, i + 5), 16); i += 4; break;
                    default:
                }
            }
            text.append(c);
        }
        return text.toString();
    }

    private static String quoted(String text) {
        StringBuilder json = new StringBuilder("\"");
        for (char c : text.toCharArray()) {
            if (c == '"' || c == '\\') {
                json.append('\\').append(c);
            } else if (c < 0x20 || c > 0x7e) {
                json.append(String.format("\\u%04x", (int) c));
            } else {
                json.append(c);
            }
        }
        return json.append('"').toString();
    }
}
