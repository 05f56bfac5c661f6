package cospark.peer;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ClassicGroupDescription;
import org.apache.kafka.clients.admin.MemberDescription;

import java.util.List;
import java.util.Map;

/** A group as Kafka's own admin client describes it. Arguments: the broker and the group; answers one line of JSON. */
public final class Groups {
    private Groups() {
    }

    public static void main(String[] arguments) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", arguments[0]))) {
            ClassicGroupDescription group = admin.describeClassicGroups(List.of(arguments[1]))
                    .all().get().get(arguments[1]);
            ArrayNode members = Workers.JSON.createArrayNode();
            for (MemberDescription member : group.members())
                members.add(Workers.JSON.createObjectNode()
                        .put("instance", member.groupInstanceId().orElse(null))
                        .put("member", member.consumerId())
                        .put("client", member.clientId()));
            ObjectNode answer = Workers.JSON.createObjectNode()
                    .put("type", group.protocol())
                    .put("protocol", group.protocolData())
                    .put("state", group.state().toString());
            answer.set("members", members);
            System.out.println(answer);
        }
    }
}
