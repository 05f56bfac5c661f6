package org.apache.kafka.connect.runtime.distributed;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.ConsumerGroupHeartbeatRequestData.TopicPartitions;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataDelta;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.MemberState;
import org.apache.kafka.coordinator.group.modern.consumer.ConsumerGroupMember;
import org.apache.kafka.coordinator.group.modern.consumer.CurrentAssignmentBuilder;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;

/**
 * A step of Kafka's own reconciliation of a consumer group: a line of {@code cospark reconcile} in, and one out.
 *
 * <p>A job is a topic that the member subscribes to, a task of it a partition.
 */
final class Reconciliation {
    private static final Map<MemberState, String> STATES = Map.of(
            MemberState.STABLE, "stable",
            MemberState.UNREVOKED_PARTITIONS, "unrevoked",
            MemberState.UNRELEASED_PARTITIONS, "unreleased");
    private static final int FREE = -1;

    private Reconciliation() {
    }

    static ObjectNode step(JsonNode question) {
        Topics topics = new Topics();
        JsonNode said = question.required("member");
        int epoch = said.required("epoch").intValue();
        Map<Uuid, Map<Integer, Integer>> assigned = topics.epochs(said.required("assigned"), epoch);
        Map<Uuid, Map<Integer, Integer>> revoking = topics.epochs(said.required("revoking"), epoch);
        Map<Uuid, Set<Integer>> target = topics.partitions(question.required("target"));
        Map<Uuid, Set<Integer>> others = topics.partitions(question.required("held_by_others"));
        List<TopicPartitions> owned = question.required("owned").isNull() ? null : new ArrayList<>();
        if (owned != null)
            topics.partitions(question.required("owned")).forEach((topic, partitions) -> owned.add(
                    new TopicPartitions().setTopicId(topic).setPartitions(new ArrayList<>(partitions))));
        ConsumerGroupMember member = new ConsumerGroupMember.Builder("member")
                .setMemberEpoch(epoch)
                .setPreviousMemberEpoch(epoch)
                .setState(state(said.required("state").textValue()))
                .setSubscribedTopicNames(new ArrayList<>(topics.names.values()))
                .setAssignedPartitions(assigned)
                .setPartitionsPendingRevocation(revoking)
                .build();
        ConsumerGroupMember next = new CurrentAssignmentBuilder(member)
                .withMetadataImage(topics)
                .withTargetAssignment(question.required("target_epoch").intValue(), new Assignment(target))
                .withCurrentPartitionEpoch((topic, partition) -> {
                    boolean held = assigned.getOrDefault(topic, Map.of()).containsKey(partition)
                            || revoking.getOrDefault(topic, Map.of()).containsKey(partition)
                            || others.getOrDefault(topic, Set.of()).contains(partition);
                    return held ? epoch : FREE;
                })
                .withOwnedTopicPartitions(owned)
                .build();
        ObjectNode answer = Referee.JSON.createObjectNode();
        answer.put("epoch", next.memberEpoch()).put("state", STATES.get(next.state()));
        answer.set("assigned", topics.toJson(next.assignedPartitions()));
        answer.set("revoking", topics.toJson(next.partitionsPendingRevocation()));
        return answer;
    }

    private static MemberState state(String name) {
        for (Map.Entry<MemberState, String> state : STATES.entrySet())
            if (state.getValue().equals(name))
                return state.getKey();
        throw new IllegalArgumentException("no such state: " + name);
    }

    /** The jobs of a line as topics of a cluster. */
    private static final class Topics implements CoordinatorMetadataImage {
        private final Map<String, Uuid> ids = new HashMap<>();
        private final Map<Uuid, String> names = new HashMap<>();

        Map<Uuid, Set<Integer>> partitions(JsonNode pairs) {
            Map<Uuid, Set<Integer>> byTopic = new HashMap<>();
            for (JsonNode pair : pairs)
                byTopic.computeIfAbsent(id(pair.get(0).textValue()), none -> new HashSet<>())
                        .add(pair.get(1).intValue());
            return byTopic;
        }

        Map<Uuid, Map<Integer, Integer>> epochs(JsonNode pairs, int epoch) {
            Map<Uuid, Map<Integer, Integer>> byTopic = new HashMap<>();
            partitions(pairs).forEach((topic, partitions) -> partitions.forEach(
                    partition -> byTopic.computeIfAbsent(topic, none -> new HashMap<>()).put(partition, epoch)));
            return byTopic;
        }

        ArrayNode toJson(Map<Uuid, Map<Integer, Integer>> byTopic) {
            ArrayNode pairs = Referee.JSON.createArrayNode();
            byTopic.forEach((topic, partitions) -> partitions.keySet().forEach(
                    partition -> pairs.addArray().add(names.get(topic)).add(partition)));
            return pairs;
        }

        private Uuid id(String name) {
            Uuid id = ids.computeIfAbsent(name, none -> Uuid.randomUuid());
            names.put(id, name);
            return id;
        }

        @Override
        public Set<Uuid> topicIds() {
            return names.keySet();
        }

        @Override
        public Set<String> topicNames() {
            return ids.keySet();
        }

        @Override
        public Optional<TopicMetadata> topicMetadata(String name) {
            return Optional.ofNullable(ids.get(name)).map(id -> new Topic(name, id));
        }

        @Override
        public Optional<TopicMetadata> topicMetadata(Uuid id) {
            return Optional.ofNullable(names.get(id)).map(name -> new Topic(name, id));
        }

        @Override
        public CoordinatorMetadataDelta emptyDelta() {
            throw new UnsupportedOperationException("this cluster does not change");
        }

        @Override
        public long version() {
            return 0;
        }

        @Override
        public boolean isEmpty() {
            return names.isEmpty();
        }
    }

    private record Topic(String name, Uuid id) implements CoordinatorMetadataImage.TopicMetadata {
        @Override
        public int partitionCount() {
            return Integer.MAX_VALUE;
        }

        @Override
        public List<String> partitionRacks(int partition) {
            return List.of();
        }
    }
}
