package cospark.peer;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.kafka.connect.cli.ConnectDistributed;
import org.apache.kafka.connect.runtime.Connect;
import org.apache.kafka.connect.runtime.distributed.DistributedHerder;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ConcurrentHashMap;

/**
 * Real distributed Connect workers in one process, each as {@code connect-distributed.sh} starts it from a properties
 * file. One JSON object a line in ({@code start}, {@code stop}), one a line out: what became of it, and what the
 * connectors and tasks of {@link IdleSource} do. Ends when its input ends.
 */
public final class Workers {
    static final ObjectMapper JSON = new ObjectMapper();

    /** Whose thread this is. All threads of a worker are made by its own threads. */
    private static final InheritableThreadLocal<String> WORKER = new InheritableThreadLocal<>();
    // Kafka's shutdown hooks and loggers must not write into the answers.
    private static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);

    private final Map<String, Connect<DistributedHerder>> running = new ConcurrentHashMap<>();

    public static void main(String[] arguments) throws IOException {
        System.setOut(System.err);
        Workers workers = new Workers();
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            JsonNode question = JSON.readTree(line);
            new Thread(() -> workers.obey(question)).start();
        }
        Runtime.getRuntime().halt(0);
    }

    /** Says what happened in the worker of this thread. */
    static void say(String event, ObjectNode more) {
        OUT.println(more.put("event", event).put("worker", WORKER.get()).put("at_ms", System.currentTimeMillis()));
    }

    private void obey(JsonNode question) {
        String worker = question.required("worker").asText();
        WORKER.set(worker);
        ObjectNode answer = JSON.createObjectNode();
        try {
            if (question.required("op").asText().equals("start")) {
                Connect<DistributedHerder> connect = new ConnectDistributed().startConnect(
                        read(question.required("properties").asText()));
                running.put(worker, connect);
                say("worker started", answer.put("url", connect.rest().advertisedUrl().toString()));
            } else {
                Connect<DistributedHerder> connect = running.remove(worker);
                connect.stop();
                connect.awaitStop();
                say("worker stopped", answer);
            }
        } catch (Exception | Error wrong) {
            wrong.printStackTrace();
            say("worker failed", answer.put("error", wrong.toString()));
        }
    }

    private static Map<String, String> read(String path) throws IOException {
        Properties properties = new Properties();
        try (var file = java.nio.file.Files.newBufferedReader(java.nio.file.Path.of(path))) {
            properties.load(file);
        }
        Map<String, String> map = new HashMap<>();
        properties.forEach((key, value) -> map.put(key.toString(), value.toString()));
        return map;
    }
}
