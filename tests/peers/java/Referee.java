package org.apache.kafka.connect.runtime.distributed;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;

/**
 * Asks Java Kafka Connect's own classes, and its group coordinator's. One JSON object a line in, one a line out; ends when its input ends.
 *
 * <p>It lives in their package because what it asks is package-private there.
 */
public final class Referee {
    static final ObjectMapper JSON = new ObjectMapper();

    private final Decisions decisions = new Decisions();

    public static void main(String[] arguments) throws IOException {
        Referee referee = new Referee();
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            answers.println(JSON.writeValueAsString(referee.answer(JSON.readTree(line))));
        }
    }

    private ObjectNode answer(JsonNode question) {
        switch (question.required("op").asText()) {
            case "decode":
                return Bytes.decode(question.required("kind").asText(), question.required("hex").asText());
            case "encode":
                return Bytes.encode(question.required("kind").asText(), question.required("value"));
            case "offer":
                return Bytes.offer(question.required("protocol").asText(), question.required("value"));
            case "new_leader":
                return decisions.newLeader(question.required("max_delay").intValue());
            case "assign":
                return decisions.assign(question);
            case "reconcile":
                return Reconciliation.step(question);
            case "encode_message":
                return Messages.encode(question.required("schema"), question.required("value"), question.path("unknown"));
            case "decode_message":
                return Messages.decode(question.required("schema"), question.required("hex").asText());
            default:
                throw new IllegalArgumentException("no such question: " + question);
        }
    }
}
