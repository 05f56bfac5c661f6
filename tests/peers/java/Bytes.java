package org.apache.kafka.connect.runtime.distributed;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.kafka.common.message.JoinGroupRequestData.JoinGroupRequestProtocol;
import org.apache.kafka.common.message.JoinGroupRequestData.JoinGroupRequestProtocolCollection;

import java.nio.ByteBuffer;
import java.util.HexFormat;

/** The embedded protocol. Values have the keys of {@code cospark decode}. */
final class Bytes {
    private static final HexFormat HEX = HexFormat.of();

    private Bytes() {
    }

    /** The value, or {@code malformed} with what Java has to say. Bytes of v0 are for ConnectProtocol, as in a worker. */
    static ObjectNode decode(String kind, String hex) {
        ByteBuffer bytes = ByteBuffer.wrap(HEX.parseHex(hex));
        try {
            return kind.equals("metadata") ? metadata(bytes) : assignment(bytes);
        } catch (RuntimeException malformed) {
            return Referee.JSON.createObjectNode().put("malformed", malformed.toString());
        }
    }

    static ObjectNode encode(String kind, JsonNode value) {
        short version = value.required("version").shortValue();
        ByteBuffer bytes;
        if (kind.equals("metadata"))
            bytes = version == 0
                    ? ConnectProtocol.serializeMetadata(workerState(value))
                    : IncrementalCooperativeConnectProtocol.serializeMetadata(workerState(value), version == 2);
        else
            bytes = version == 0
                    ? ConnectProtocol.serializeAssignment(extended(value))
                    : IncrementalCooperativeConnectProtocol.serializeAssignment(extended(value), version == 2);
        return Referee.JSON.createObjectNode().put("hex", HEX.formatHex(bytes.array()));
    }

    /** What a worker with this {@code connect.protocol} puts into a JoinGroup: {name: hex}, the preferred one first. */
    static ObjectNode offer(String protocol, JsonNode value) {
        JoinGroupRequestProtocolCollection offered = protocol.equals("eager")
                ? ConnectProtocol.metadataRequest(workerState(value))
                : IncrementalCooperativeConnectProtocol.metadataRequest(workerState(value), protocol.equals("sessioned"));
        ObjectNode answer = Referee.JSON.createObjectNode();
        for (JoinGroupRequestProtocol one : offered)
            answer.put(one.name(), HEX.formatHex(one.metadata()));
        return answer;
    }

    private static ObjectNode metadata(ByteBuffer bytes) {
        short version = version(bytes);
        ObjectNode answer = Referee.JSON.createObjectNode().put("version", version);
        if (version == 0) {
            ConnectProtocol.WorkerState state = ConnectProtocol.deserializeMetadata(bytes);
            return answer.put("url", state.url()).put("config_offset", state.offset()).putNull("assignment");
        }
        ExtendedWorkerState state = IncrementalCooperativeConnectProtocol.deserializeMetadata(bytes);
        answer.put("url", state.url()).put("config_offset", state.offset());
        if (state.assignment() == ExtendedAssignment.empty())
            return answer.putNull("assignment");
        return answer.set("assignment", toJson(state.assignment()));
    }

    private static ObjectNode assignment(ByteBuffer bytes) {
        if (version(bytes) != 0)
            return toJson(IncrementalCooperativeConnectProtocol.deserializeAssignment(bytes));
        return common((short) 0, ConnectProtocol.deserializeAssignment(bytes)).put("delay", 0).set(
                "revoked", Referee.JSON.createArrayNode());
    }

    /** A negative version is left to Java to refuse. */
    private static short version(ByteBuffer bytes) {
        return bytes.remaining() < Short.BYTES ? 1 : bytes.getShort(0);
    }

    private static ObjectNode toJson(ExtendedAssignment assignment) {
        return common(assignment.version(), assignment).put("delay", assignment.delay()).set(
                "revoked", Tasks.toJson(assignment.revokedConnectors(), assignment.revokedTasks()));
    }

    private static ObjectNode common(short version, ConnectProtocol.Assignment assignment) {
        return Referee.JSON.createObjectNode()
                .put("version", version)
                .put("error", assignment.error())
                .put("leader", assignment.leader())
                .put("leader_url", assignment.leaderUrl())
                .put("config_offset", assignment.offset())
                .set("assigned", Tasks.toJson(assignment.connectors(), assignment.tasks()));
    }

    private static ExtendedWorkerState workerState(JsonNode value) {
        JsonNode assignment = value.required("assignment");
        return new ExtendedWorkerState(
                value.required("url").textValue(),
                value.required("config_offset").longValue(),
                assignment.isNull() ? null : extended(assignment));
    }

    private static ExtendedAssignment extended(JsonNode value) {
        return new ExtendedAssignment(
                value.required("version").shortValue(),
                value.required("error").shortValue(),
                value.required("leader").textValue(),
                value.required("leader_url").textValue(),
                value.required("config_offset").longValue(),
                Tasks.connectors(value.required("assigned")),
                Tasks.tasks(value.required("assigned")),
                Tasks.connectors(value.required("revoked")),
                Tasks.tasks(value.required("revoked")),
                value.required("delay").intValue());
    }
}
