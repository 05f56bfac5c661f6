package org.apache.kafka.connect.runtime.distributed;

import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.connect.runtime.distributed.IncrementalCooperativeAssignor.ClusterAssignment;
import org.apache.kafka.connect.runtime.distributed.WorkerCoordinator.ConnectorsAndTasks;
import org.apache.kafka.connect.storage.ClusterConfigState;
import org.apache.kafka.connect.util.ConnectorTaskId;

import java.lang.reflect.Field;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;

/**
 * One round of Connect's assignor, over and over: {@code WORKERS JOBS TASKS full|steady|join CALLS}.
 *
 * <p>The same as {@code benchmarks/rounds.py}, and prints the same: one JSON object with the milliseconds of each call
 * and what was decided. From bytes to bytes, as a leader does it: the calls are those of
 * {@code IncrementalCooperativeAssignor.performAssignment}, which can't be called without a whole worker.
 */
public final class Rounds {
    private static final short SESSIONED = 2;
    private static final int MAX_DELAY_MS = 300_000;

    private final int workers;
    private final int jobs;
    private final int tasks;

    private Rounds(int workers, int jobs, int tasks) {
        this.workers = workers;
        this.jobs = jobs;
        this.tasks = tasks;
    }

    public static void main(String[] arguments) throws ReflectiveOperationException {
        Rounds rounds = new Rounds(
                Integer.parseInt(arguments[0]), Integer.parseInt(arguments[1]), Integer.parseInt(arguments[2]));
        rounds.measure(arguments[3], Integer.parseInt(arguments[4]));
    }

    private void measure(String kind, int calls) throws ReflectiveOperationException {
        boolean begun = !kind.equals("full");
        Map<String, ByteBuffer> metadata = metadata(begun);
        if (kind.equals("join"))
            metadata.put("worker-new", metadata(List.of(), List.of()));
        ClusterConfigState configured = configured();
        List<String> assignOnly = new ArrayList<>();
        List<String> fromBytesToBytes = new ArrayList<>();
        int started = 0;
        int stopped = 0;
        for (int call = 0; call < calls; call++) {
            IncrementalCooperativeAssignor assignor = new IncrementalCooperativeAssignor(new LogContext(), Time.SYSTEM, MAX_DELAY_MS);
            if (begun)
                remember(assignor);
            long began = System.nanoTime();
            Map<String, ConnectorsAndTasks> owned = new HashMap<>();
            metadata.forEach((worker, bytes) -> {
                ExtendedAssignment own = IncrementalCooperativeConnectProtocol.deserializeMetadata(bytes.duplicate()).assignment();
                owned.put(worker, new ConnectorsAndTasks.Builder().with(own.connectors(), own.tasks()).build());
            });
            long decoded = System.nanoTime();
            ClusterAssignment decided = assignor.performTaskAssignment(configured, 1, 2, owned);
            long assigned = System.nanoTime();
            Map<String, ByteBuffer> answers = new HashMap<>();
            for (String worker : owned.keySet())
                answers.put(worker, IncrementalCooperativeConnectProtocol.serializeAssignment(
                        new ExtendedAssignment(SESSIONED, (short) 0, "worker-0000", "", 1,
                                decided.newlyAssignedConnectors(worker), decided.newlyAssignedTasks(worker),
                                decided.newlyRevokedConnectors(worker), decided.newlyRevokedTasks(worker),
                                assignor.delay), true));
            long encoded = System.nanoTime();
            assignOnly.add(milliseconds(assigned - decoded));
            fromBytesToBytes.add(milliseconds(encoded - began));
            started = answers.keySet().stream().mapToInt(worker -> decided.newlyAssignedTasks(worker).size()).sum();
            stopped = answers.keySet().stream().mapToInt(worker -> decided.newlyRevokedTasks(worker).size()).sum();
        }
        System.out.printf("{\"assign_ms\": %s, \"lead_ms\": %s, \"started\": %d, \"stopped\": %d}%n",
                assignOnly, fromBytesToBytes, started, stopped);
    }

    /** What each worker says that it owns: nothing, or the jobs dealt round robin. */
    private Map<String, ByteBuffer> metadata(boolean begun) {
        List<List<String>> connectors = new ArrayList<>();
        List<List<ConnectorTaskId>> owned = new ArrayList<>();
        for (int worker = 0; worker < workers; worker++) {
            connectors.add(new ArrayList<>());
            owned.add(new ArrayList<>());
        }
        for (int job = 0; begun && job < jobs; job++) {
            connectors.get(job % workers).add(name(job));
            for (int task = 0; task < tasks; task++)
                owned.get((job * tasks + task) % workers).add(new ConnectorTaskId(name(job), task));
        }
        Map<String, ByteBuffer> metadata = new LinkedHashMap<>();
        for (int worker = 0; worker < workers; worker++)
            metadata.put(String.format("worker-%04d", worker), metadata(connectors.get(worker), owned.get(worker)));
        return metadata;
    }

    private static ByteBuffer metadata(Collection<String> connectors, Collection<ConnectorTaskId> tasks) {
        ExtendedAssignment own = new ExtendedAssignment(
                SESSIONED, (short) 0, "worker-0000", "", 1, connectors, tasks, List.of(), List.of(), 0);
        return IncrementalCooperativeConnectProtocol.serializeMetadata(new ExtendedWorkerState("", 1, own), true);
    }

    private ClusterConfigState configured() {
        Map<String, Integer> taskCounts = new HashMap<>();
        Map<String, Map<String, String>> configs = new HashMap<>();
        for (int job = 0; job < jobs; job++) {
            taskCounts.put(name(job), tasks);
            configs.put(name(job), Map.of());
        }
        return new ClusterConfigState(
                1, null, taskCounts, configs, Map.of(), Map.of(), Map.of(), Map.of(), Map.of(), Set.of(), Set.of());
    }

    /** The memory of the round that assigned everything, as generation 1. */
    private void remember(IncrementalCooperativeAssignor assignor) throws ReflectiveOperationException {
        ConnectorsAndTasks.Builder everything = new ConnectorsAndTasks.Builder();
        Set<String> names = new HashSet<>();
        for (int job = 0; job < jobs; job++) {
            everything.addConnectors(Set.of(name(job)));
            for (int task = 0; task < tasks; task++)
                everything.addTasks(Set.of(new ConnectorTaskId(name(job), task)));
        }
        for (int worker = 0; worker < workers; worker++)
            names.add(String.format("worker-%04d", worker));
        Field previous = IncrementalCooperativeAssignor.class.getDeclaredField("previousAssignment");
        previous.setAccessible(true);
        previous.set(assignor, everything.build());
        assignor.previousMembers = names;
        assignor.previousGenerationId = 1;
    }

    private static String name(int job) {
        return String.format("job-%05d", job);
    }

    private static String milliseconds(long nanoseconds) {
        return String.format(Locale.ROOT, "%.3f", nanoseconds / 1e6);
    }
}
