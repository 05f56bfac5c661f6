package org.apache.kafka.connect.runtime.distributed;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.kafka.common.protocol.types.CompactArrayOf;
import org.apache.kafka.common.protocol.types.Field;
import org.apache.kafka.common.protocol.types.NullableSchema;
import org.apache.kafka.common.protocol.types.RawTaggedField;
import org.apache.kafka.common.protocol.types.Schema;
import org.apache.kafka.common.protocol.types.Struct;
import org.apache.kafka.common.protocol.types.TaggedFields;
import org.apache.kafka.common.protocol.types.Type;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.NavigableMap;
import java.util.TreeMap;

/**
 * Messages by Kafka's own types. A schema is a message definition as JSON, from which it is put together as Kafka's
 * generator does it; a value has the names of its schema, and its bytes are hex.
 */
final class Messages {
    private static final HexFormat HEX = HexFormat.of();
    private static final String TAGGED = "_tagged_fields";

    private Messages() {
    }

    /** With the {@code unknown} tagged field, if there is one, in each struct. */
    static ObjectNode encode(JsonNode definition, JsonNode value, JsonNode unknown) {
        Struct struct = struct(definition, definition.required("flexible").booleanValue(), value, unknown);
        ByteBuffer bytes = ByteBuffer.allocate(struct.sizeOf());
        struct.writeTo(bytes);
        return Referee.JSON.createObjectNode().put("hex", HEX.formatHex(bytes.array()));
    }

    /** The value, or {@code malformed} with what Java has to say. */
    static ObjectNode decode(JsonNode definition, String hex) {
        boolean flexible = definition.required("flexible").booleanValue();
        ByteBuffer bytes = ByteBuffer.wrap(HEX.parseHex(hex));
        ObjectNode answer = Referee.JSON.createObjectNode();
        try {
            answer.set("value", toJson(definition, flexible, schema(definition, flexible).read(bytes)));
        } catch (RuntimeException malformed) {
            return answer.put("malformed", malformed.toString());
        }
        return bytes.hasRemaining() ? answer.put("malformed", bytes.remaining() + " bytes remain") : answer;
    }

    private static Schema schema(JsonNode definition, boolean flexible) {
        List<Field> fields = new ArrayList<>();
        for (JsonNode field : definition.required("fields"))
            fields.add(new Field(name(field), type(field, flexible), ""));
        if (flexible) {
            List<Object> tagged = new ArrayList<>();
            for (JsonNode field : definition.path("tagged")) {
                tagged.add(field.required("tag").intValue());
                tagged.add(new Field(name(field), type(field, true), ""));
            }
            fields.add(Field.TaggedFieldsSection.of(tagged.toArray()));
        }
        return new Schema(fields.toArray(new Field[0]));
    }

    private static Type type(JsonNode field, boolean flexible) {
        String type = field.required("type").asText();
        boolean nullable = nullable(field);
        if (type.startsWith("[]")) {
            Type of = field.has("fields") ? schema(field, flexible) : primitive(type.substring(2), false, flexible);
            return nullable ? CompactArrayOf.nullable(of) : new CompactArrayOf(of);
        }
        if (field.has("fields"))
            return nullable ? new NullableSchema(schema(field, flexible)) : schema(field, flexible);
        return primitive(type, nullable, flexible);
    }

    private static Type primitive(String type, boolean nullable, boolean flexible) {
        switch (type) {
            case "int8":
                return Type.INT8;
            case "int16":
                return Type.INT16;
            case "int32":
                return Type.INT32;
            case "string":
                if (!flexible)
                    return Type.STRING;
                return nullable ? Type.COMPACT_NULLABLE_STRING : Type.COMPACT_STRING;
            case "bytes":
                return Type.COMPACT_BYTES;
            default:
                throw new IllegalArgumentException("no such type: " + type);
        }
    }

    private static Struct struct(JsonNode definition, boolean flexible, JsonNode value, JsonNode unknown) {
        Schema schema = schema(definition, flexible);
        return fill(new Struct(schema), definition, flexible, value, unknown);
    }

    private static Struct fill(Struct struct, JsonNode definition, boolean flexible, JsonNode value, JsonNode unknown) {
        for (JsonNode field : definition.required("fields")) {
            JsonNode given = value.required(name(field));
            struct.set(name(field), fromJson(field, flexible, struct.schema().get(name(field)).def.type, given, unknown));
        }
        if (!flexible)
            return struct;
        Map<Integer, Field> known = ((TaggedFields) struct.schema().get(TAGGED).def.type).fields();
        NavigableMap<Integer, Object> tagged = new TreeMap<>();
        for (JsonNode field : definition.path("tagged")) {
            int tag = field.required("tag").intValue();
            if (value.has(name(field)))
                tagged.put(tag, fromJson(field, true, known.get(tag).type, value.get(name(field)), unknown));
        }
        if (!unknown.isMissingNode())
            tagged.put(unknown.required("tag").intValue(),
                    new RawTaggedField(unknown.required("tag").intValue(), HEX.parseHex(unknown.required("hex").asText())));
        return struct.set(TAGGED, tagged);
    }

    private static Object fromJson(JsonNode field, boolean flexible, Type type, JsonNode value, JsonNode unknown) {
        if (value.isNull())
            return null;
        if (value.isArray()) {
            Type of = type.arrayElementType().orElseThrow();
            List<Object> entries = new ArrayList<>();
            for (JsonNode entry : value)
                entries.add(of instanceof Schema
                        ? fill(new Struct((Schema) of), field, flexible, entry, unknown)
                        : entry.textValue());
            return entries.toArray();
        }
        if (value.isObject())
            return fill(new Struct((Schema) type), field, flexible, value, unknown);
        switch (field.required("type").asText()) {
            case "int8":
                return (byte) value.intValue();
            case "int16":
                return (short) value.intValue();
            case "int32":
                return value.intValue();
            case "bytes":
                return ByteBuffer.wrap(HEX.parseHex(value.textValue()));
            default:
                return value.textValue();
        }
    }

    private static ObjectNode toJson(JsonNode definition, boolean flexible, Struct struct) {
        ObjectNode answer = Referee.JSON.createObjectNode();
        for (JsonNode field : definition.required("fields"))
            answer.set(name(field), toJson(field, flexible, struct.get(name(field))));
        if (!flexible)
            return answer;
        @SuppressWarnings("unchecked")
        Map<Integer, Object> tagged = (Map<Integer, Object>) struct.get(TAGGED);
        for (JsonNode field : definition.path("tagged"))
            if (tagged.containsKey(field.required("tag").intValue()))
                answer.set(name(field), toJson(field, true, tagged.get(field.required("tag").intValue())));
        return answer;
    }

    private static JsonNode toJson(JsonNode field, boolean flexible, Object value) {
        if (value instanceof Object[]) {
            ArrayNode entries = Referee.JSON.createArrayNode();
            for (Object entry : (Object[]) value)
                entries.add(toJson(field, flexible, entry));
            return entries;
        }
        if (value instanceof Struct)
            return toJson(field, flexible, (Struct) value);
        if (value instanceof ByteBuffer) {
            byte[] bytes = new byte[((ByteBuffer) value).remaining()];
            ((ByteBuffer) value).duplicate().get(bytes);
            return Referee.JSON.getNodeFactory().textNode(HEX.formatHex(bytes));
        }
        return Referee.JSON.valueToTree(value);
    }

    private static boolean nullable(JsonNode field) {
        return field.path("nullable").asBoolean(false);
    }

    private static String name(JsonNode field) {
        return field.required("name").asText();
    }
}
