package dev.postroom;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import org.junit.jupiter.api.Test;

class WebhookTest {
    @Test
    void aSignatureIsJudgedAsTheRelayJudgesIt() throws Exception {
        List<String> vectors = Json.elements(Files.readString(Path.of("../webhook-vectors.json")));
        for (String vector : vectors) {
            Map<String, String> parts = Json.members(vector);
            List<String> keys = Json.elements(parts.get("keys")).stream().map(Json::string).toList();
            byte[] body = Json.string(parts.get("body")).getBytes(StandardCharsets.UTF_8);
            Instant now = Instant.ofEpochSecond(Long.parseLong(parts.get("now")));
            String result = "ok";
            try {
                Webhook.verify(keys, name -> Json.string(parts.get(name.replace("webhook-", ""))), body, now);
            } catch (VerifyException e) {
                result = e.reason().name().toLowerCase(Locale.ROOT);
            }
            assertEquals(Json.string(parts.get("result")), result, parts.get("name"));
        }
    }

    @Test
    void aKeyThatIsNoneIsRefused() {
        for (String key : List.of("hunter2", "whpk_AAAA", "whsec_%")) {
            assertThrows(IllegalArgumentException.class, () -> Webhook.verify(List.of(key), name -> "1", new byte[0]));
        }
    }
}
