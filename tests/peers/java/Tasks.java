package org.apache.kafka.connect.runtime.distributed;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import org.apache.kafka.connect.util.ConnectorTaskId;

import java.util.ArrayList;
import java.util.Collection;
import java.util.List;

/** Connectors and tasks as pairs [job, index], a connector having the index -1. */
final class Tasks {
    private Tasks() {
    }

    static ArrayNode toJson(Collection<String> connectors, Collection<ConnectorTaskId> tasks) {
        ArrayNode pairs = Referee.JSON.createArrayNode();
        for (String connector : connectors)
            pairs.addArray().add(connector).add(ConnectProtocol.CONNECTOR_TASK);
        for (ConnectorTaskId task : tasks)
            pairs.addArray().add(task.connector()).add(task.task());
        return pairs;
    }

    static List<String> connectors(JsonNode pairs) {
        List<String> connectors = new ArrayList<>();
        for (JsonNode pair : pairs)
            if (pair.get(1).intValue() == ConnectProtocol.CONNECTOR_TASK)
                connectors.add(pair.get(0).textValue());
        return connectors;
    }

    static List<ConnectorTaskId> tasks(JsonNode pairs) {
        List<ConnectorTaskId> tasks = new ArrayList<>();
        for (JsonNode pair : pairs)
            if (pair.get(1).intValue() != ConnectProtocol.CONNECTOR_TASK)
                tasks.add(new ConnectorTaskId(pair.get(0).textValue(), pair.get(1).intValue()));
        return tasks;
    }
}
