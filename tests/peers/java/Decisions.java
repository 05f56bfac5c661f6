package org.apache.kafka.connect.runtime.distributed;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.connect.runtime.distributed.WorkerCoordinator.ConnectorsAndTasks;
import org.apache.kafka.connect.storage.ClusterConfigState;

import java.lang.reflect.Field;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import java.util.function.Supplier;

/** A leader's decisions: a history in the format of {@code cospark replay}, round by round, on a clock that it sets. */
final class Decisions {
    private static final String LEADER_RESTART = "leader_restart";

    private final SetClock clock = new SetClock();
    private int maxDelay;
    private IncrementalCooperativeAssignor leader;

    /** A leader that remembers nothing. */
    ObjectNode newLeader(int maxDelayMs) {
        maxDelay = maxDelayMs;
        leader = new IncrementalCooperativeAssignor(new LogContext(), clock, maxDelay);
        return Referee.JSON.createObjectNode();
    }

    ObjectNode assign(JsonNode round) {
        if (round.path("event").asText().equals(LEADER_RESTART))
            newLeader(maxDelay);
        if (round.has("memory"))
            leader = remembering(round.get("memory"));
        clock.now = round.required("now").longValue();
        Map<String, ConnectorsAndTasks> owned = new LinkedHashMap<>();
        for (Map.Entry<String, JsonNode> member : round.required("owned").properties())
            owned.put(member.getKey(), new ConnectorsAndTasks.Builder()
                    .with(Tasks.connectors(member.getValue()), Tasks.tasks(member.getValue()))
                    .build());
        IncrementalCooperativeAssignor.ClusterAssignment decided = leader.performTaskAssignment(
                configured(round.required("jobs")),
                round.required("last_completed").intValue(),
                round.required("generation").intValue(),
                owned);
        ObjectNode assigned = Referee.JSON.createObjectNode();
        ObjectNode revoked = Referee.JSON.createObjectNode();
        for (String worker : owned.keySet()) {
            assigned.set(worker, Tasks.toJson(
                    decided.newlyAssignedConnectors(worker), decided.newlyAssignedTasks(worker)));
            revoked.set(worker, Tasks.toJson(
                    decided.newlyRevokedConnectors(worker), decided.newlyRevokedTasks(worker)));
        }
        ObjectNode answer = Referee.JSON.createObjectNode();
        answer.set("assigned", assigned);
        answer.set("revoked", revoked);
        answer.set("remembered", Referee.JSON.createObjectNode()
                .put("deadline_ms", leader.scheduledRebalance)
                .put("revoked_in_previous", (boolean) read("revokedInPrevious"))
                .put("successive_revocations", (int) read("numSuccessiveRevokingRebalances")));
        return answer.put("delay", leader.delay);
    }

    /** A leader that remembers what ours does; the keys are those of its memory in the group record. */
    private IncrementalCooperativeAssignor remembering(JsonNode memory) {
        newLeader(maxDelay);
        ConnectorsAndTasks.Builder previous = new ConnectorsAndTasks.Builder();
        for (JsonNode tasks : memory.required("assignment"))
            previous.addConnectors(Tasks.connectors(tasks)).addTasks(Tasks.tasks(tasks));
        write("previousAssignment", previous.build());
        ConnectorsAndTasks revoked = (ConnectorsAndTasks) read("previousRevocation");
        revoked.connectors().addAll(Tasks.connectors(memory.required("revoked")));
        revoked.tasks().addAll(Tasks.tasks(memory.required("revoked")));
        write("revokedInPrevious", memory.required("revoked_in_previous").booleanValue());
        write("numSuccessiveRevokingRebalances", memory.required("successive_revocations").intValue());
        for (JsonNode worker : memory.required("candidates"))
            leader.candidateWorkersForReassignment.add(worker.textValue());
        leader.scheduledRebalance = memory.required("deadline_ms").longValue();
        leader.previousGenerationId = memory.required("generation").intValue();
        leader.previousMembers = new HashSet<>();
        for (JsonNode worker : memory.required("members"))
            leader.previousMembers.add(worker.textValue());
        return leader;
    }

    private Object read(String field) {
        try {
            return accessible(field).get(leader);
        } catch (ReflectiveOperationException missing) {
            throw new IllegalStateException("Java's assignor has changed", missing);
        }
    }

    private void write(String field, Object value) {
        try {
            accessible(field).set(leader, value);
        } catch (ReflectiveOperationException missing) {
            throw new IllegalStateException("Java's assignor has changed", missing);
        }
    }

    private static Field accessible(String name) throws ReflectiveOperationException {
        Field field = IncrementalCooperativeAssignor.class.getDeclaredField(name);
        field.setAccessible(true);
        return field;
    }

    private static ClusterConfigState configured(JsonNode jobs) {
        Map<String, Integer> taskCounts = new HashMap<>();
        Map<String, Map<String, String>> configs = new HashMap<>();
        for (Map.Entry<String, JsonNode> job : jobs.properties()) {
            taskCounts.put(job.getKey(), job.getValue().intValue());
            configs.put(job.getKey(), Map.of());
        }
        return new ClusterConfigState(
                1, null, taskCounts, configs, Map.of(), Map.of(), Map.of(), Map.of(), Map.of(), Set.of(), Set.of());
    }

    private static final class SetClock implements Time {
        private long now;

        @Override
        public long milliseconds() {
            return now;
        }

        @Override
        public long nanoseconds() {
            return now * 1_000_000;
        }

        @Override
        public void sleep(long ms) {
            throw new UnsupportedOperationException("an assignor does not sleep");
        }

        @Override
        public void waitObject(Object object, Supplier<Boolean> condition, long deadlineMs) {
            throw new UnsupportedOperationException("an assignor does not wait");
        }
    }
}
