package dev.postroom;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.IntConsumer;

/**
 * Takes JSON apart without changing it: the parts of a text stay texts. Mapping them to objects is left to the JSON library of the
 * application.
 */
final class Json {
    /** Nesting beyond this is refused, not a stack overflow. */
    private static final int DEPTH_MAX = 200;

    private final String text;
    private int at;

    private Json(String text) {
        this.text = text;
    }

    /** Checks that the text is one JSON value. */
    static String checked(String text) {
        Json json = new Json(text);
        json.value(0);
        json.end();
        return text;
    }

    /** Returns the members of an object, each as JSON. */
    static Map<String, String> members(String text) {
        Map<String, String> members = new LinkedHashMap<>();
        Json json = new Json(text);
        json.list('{', '}', from -> {
            String name = string(json.string());
            json.expect(':');
            members.put(name, json.part());
        });
        json.end();
        return members;
    }

    /** Returns the elements of an array, each as JSON. */
    static List<String> elements(String text) {
        List<String> elements = new ArrayList<>();
        Json json = new Json(text);
        json.list('[', ']', from -> elements.add(json.part()));
        json.end();
        return elements;
    }

    /** Returns the text of a JSON string. */
    static String string(String json) {
        StringBuilder plain = new StringBuilder();
        for (int at = 1; at < json.length() - 1; at++) {
            char c = json.charAt(at);
            if (c != '\\') {
                plain.append(c);
                continue;
            }
            switch (json.charAt(++at)) {
                case 'b' -> plain.append('\b');
                case 'f' -> plain.append('\f');
                case 'n' -> plain.append('\n');
                case 'r' -> plain.append('\r');
                case 't' -> plain.append('\t');
                case 'u' -> {
                    plain.append((char) Integer.parseInt(json, at + 1, at + 5, 16));
                    at += 4;
                }
                default -> plain.append(json.charAt(at));
            }
        }
        return plain.toString();
    }

    /** Returns a text as a JSON string. */
    static String quote(String text) {
        StringBuilder quoted = new StringBuilder(text.length() + 2).append('"');
        for (int at = 0; at < text.length(); at++) {
            char c = text.charAt(at);
            if (c == '"' || c == '\\') {
                quoted.append('\\').append(c);
            } else if (c < ' ' || Character.isSurrogate(c)) {
                quoted.append(String.format("\\u%04x", (int) c));
            } else {
                quoted.append(c);
            }
        }
        return quoted.append('"').toString();
    }

    private String part() {
        space();
        int from = at;
        value(0);
        return text.substring(from, at);
    }

    private void value(int depth) {
        if (depth > DEPTH_MAX) {
            throw wrong();
        }
        space();
        switch (peek()) {
            case '{' -> list('{', '}', from -> {
                string();
                expect(':');
                value(depth + 1);
            });
            case '[' -> list('[', ']', from -> value(depth + 1));
            case '"' -> string();
            case 't' -> word("true");
            case 'f' -> word("false");
            case 'n' -> word("null");
            default -> number();
        }
    }

    private void list(char open, char close, IntConsumer one) {
        expect(open);
        space();
        if (peek() == close) {
            at++;
            return;
        }
        one.accept(at);
        for (space(); peek() == ','; space()) {
            at++;
            one.accept(at);
        }
        expect(close);
    }

    private String string() {
        space();
        int from = at;
        expect('"');
        while (peek() != '"') {
            char c = text.charAt(at++);
            if (c < ' ' || c == '\0') {
                throw wrong();
            }
            if (c == '\\') {
                char escaped = peek();
                at++;
                if (escaped == 'u') {
                    for (int digit = 0; digit < 4; digit++, at++) {
                        if (Character.digit(peek(), 16) < 0) {
                            throw wrong();
                        }
                    }
                } else if ("\"\\/bfnrt".indexOf(escaped) < 0) {
                    throw wrong();
                }
            }
        }
        at++;
        return text.substring(from, at);
    }

    private void number() {
        int from = at;
        while (at < text.length() && "+-.eE0123456789".indexOf(text.charAt(at)) >= 0) {
            at++;
        }
        if (!text.substring(from, at).matches("-?(0|[1-9][0-9]*)(\\.[0-9]+)?([eE][+-]?[0-9]+)?")) {
            throw wrong();
        }
    }

    private void word(String word) {
        if (!text.startsWith(word, at)) {
            throw wrong();
        }
        at += word.length();
    }

    private void expect(char c) {
        space();
        if (peek() != c) {
            throw wrong();
        }
        at++;
    }

    private void space() {
        while (at < text.length() && " \t\r\n".indexOf(text.charAt(at)) >= 0) {
            at++;
        }
    }

    private void end() {
        space();
        if (at < text.length()) {
            throw wrong();
        }
    }

    private char peek() {
        if (at >= text.length()) {
            throw wrong();
        }
        return text.charAt(at);
    }

    /** Names the place, never the text: payloads stay out of errors. */
    private IllegalArgumentException wrong() {
        return new IllegalArgumentException("not JSON at character " + at);
    }
}
