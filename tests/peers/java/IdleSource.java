package cospark.peer;

import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.source.SourceConnector;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** A connector of {@code tasks.max} tasks that do nothing until they are stopped; all of them say when they start and stop. */
public final class IdleSource extends SourceConnector {
    private static final int CONNECTOR = -1;
    private String name;

    @Override
    public void start(Map<String, String> properties) {
        name = properties.get("name");
        say("started", name, CONNECTOR);
    }

    @Override
    public void stop() {
        say("stopped", name, CONNECTOR);
    }

    @Override
    public Class<? extends Task> taskClass() {
        return IdleTask.class;
    }

    @Override
    public List<Map<String, String>> taskConfigs(int most) {
        List<Map<String, String>> configs = new ArrayList<>();
        for (int index = 0; index < most; index++)
            configs.add(Map.of("job", name, "index", Integer.toString(index)));
        return configs;
    }

    @Override
    public ConfigDef config() {
        return new ConfigDef();
    }

    @Override
    public String version() {
        return "1";
    }

    private static void say(String event, String job, int index) {
        ObjectNode task = Workers.JSON.createObjectNode();
        Workers.say(event, task.put("job", job).put("index", index));
    }

    public static final class IdleTask extends SourceTask {
        private String job;
        private int index;

        @Override
        public void start(Map<String, String> properties) {
            job = properties.get("job");
            index = Integer.parseInt(properties.get("index"));
            say("started", job, index);
        }

        @Override
        public List<SourceRecord> poll() throws InterruptedException {
            Thread.sleep(20);
            return null;
        }

        @Override
        public void stop() {
            say("stopped", job, index);
        }

        @Override
        public String version() {
            return "1";
        }
    }
}
