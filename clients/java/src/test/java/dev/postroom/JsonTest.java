package dev.postroom;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

class JsonTest {
    @Test
    void partsAreKeptAsTheyAre() {
        String text = " {\"a\" : [1, {\"b\": \"]\"}], \"\\u00e9\\n\":\"x\\\"y\", \"n\": -1.5e3 , \"t\":true} ";
        assertEquals(Map.of("a", "[1, {\"b\": \"]\"}]", "é\n", "\"x\\\"y\"", "n", "-1.5e3", "t", "true"), Json.members(text));
        assertEquals(List.of("1", "[ ]", "{}", "null", "\"\""), Json.elements("[1,[ ], {}, null,\"\"]"));
        assertEquals(List.of(), Json.elements("[ ]"));
    }

    @Test
    void stringsReadBack() {
        String text = "é \" \\ / \n \t \u0001 😀";
        assertEquals(text, Json.string(Json.quote(text)));
        assertEquals("/\b\f\r", Json.string("\"\\/\\b\\f\\r\""));
    }

    @Test
    void anythingElseIsRefusedWithoutQuotingIt() {
        for (String text : List.of("", "{", "[1,]", "{\"a\"}", "{\"a\":1,}", "1}, {\"type\": \"b\"", "01", "1.", "-", "nul", "\"\n\"", "\"\\x\"",
                "\"\\u12g4\"", "\"a", "[1] 2", "secret", "[".repeat(100_000))) {
            String said = assertThrows(IllegalArgumentException.class, () -> Json.checked(text), text).getMessage();
            assertEquals("not JSON at character", said.replaceAll(" [0-9]+$", ""));
        }
    }
}
