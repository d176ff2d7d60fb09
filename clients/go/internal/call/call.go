// Package call has the statements of append and accept. Who runs them is left to the packages of the drivers.
package call

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
)

// Event is an event to append; the package postroom documents it.
type Event struct {
	Type          string
	Key           string
	Payload       any
	ContentType   string
	ID            string
	AggregateType string
	AggregateID   string
	Tenant        string
	Headers       map[string]string
	Attributes    map[string]any
	CorrelationID string
	CausationID   string
	SchemaVersion int // 1 if 0
	OccurredAt    time.Time
	AvailableAt   time.Time
}

// Call is a statement with its parameters.
type Call struct {
	SQL  string
	Args []any
}

// parameter of a SQL function: its name, how it is cast, and its value.
type parameter struct {
	name, cast string
	value      any
}

// Append appends an event.
func Append(schema string, event Event) (Call, error) {
	if event.ContentType == "" {
		return function(schema, "append", event, nil)
	}
	return function(schema, "append_bytes", event, []parameter{text("content_type", event.ContentType)})
}

// AppendOnce appends an event once per idempotency key.
func AppendOnce(schema, idempotencyKey string, event Event) (Call, error) {
	if event.ContentType != "" {
		return Call{}, errors.New("postroom: AppendOnce takes JSON payloads only: leave ContentType out")
	}
	// An empty key is for the database to refuse.
	return function(schema, "append_once", event, []parameter{{"idempotency_key", "cast($%d as text)", idempotencyKey}})
}

// AppendMany appends several events.
func AppendMany(schema string, events []Event) (Call, error) {
	listed := make([]string, 0, len(events))
	for _, event := range events {
		one, err := list(event)
		if err != nil {
			return Call{}, err
		}
		listed = append(listed, one)
	}
	name, err := Quoted(schema)
	sql := fmt.Sprintf("select %s.append_many(cast(cast($1 as text) as json))", name)
	return Call{sql, []any{"[" + strings.Join(listed, ",") + "]"}}, err
}

// Accept accepts an event.
func Accept(schema, consumer, id string) (Call, error) {
	name, err := Quoted(schema)
	return Call{fmt.Sprintf("select %s.accept(cast($1 as text), cast($2 as text))", name), []any{consumer, id}}, err
}

// Appended reads what the transaction has appended, and which of it is wanted.
func Appended(schema, eventType, key string, payloadContains any) (Call, error) {
	var part any
	if payloadContains != nil {
		encoded, err := encode(payloadContains)
		if err != nil {
			return Call{}, err
		}
		part = encoded
	}
	name, err := Quoted(schema)
	return Call{fmt.Sprintf(`with wanted as (
  select cast($1 as text) as type, cast($2 as text) as key, cast(cast($3 as text) as jsonb) as part)
select log.id, log.type, coalesce(log.key, log.aggregate_id, ''), log.type = wanted.type
  and (wanted.key is null or wanted.key = coalesce(log.key, log.aggregate_id))
  and (wanted.part is null or case when log.content_type is null
    then cast(convert_from(log.payload, 'UTF8') as jsonb) @> wanted.part else false end)
from %s.log, wanted
where log.tx = cast(cast(pg_current_xact_id_if_assigned() as text) as bigint) order by log.seq`, name),
		[]any{eventType, null(key), part}}, err
}

var schemas = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// Quoted returns the schema as an identifier.
func Quoted(schema string) (string, error) {
	if schema == "" {
		schema = "postroom"
	}
	if !schemas.MatchString(schema) {
		return "", fmt.Errorf("postroom: %q is no name of a schema: use letters, digits and _", schema)
	}
	return `"` + schema + `"`, nil
}

func function(schema, function string, event Event, given []parameter) (Call, error) {
	payload := parameter{"payload", "cast($%d as bytea)", event.Payload}
	if event.ContentType == "" {
		encoded, err := encode(event.Payload)
		if err != nil {
			return Call{}, err
		}
		// Text first: a driver's own codecs for JSON would encode it a second time.
		payload = parameter{"payload", "cast(cast($%d as text) as json)", encoded}
	} else if _, ok := event.Payload.([]byte); !ok {
		return Call{}, fmt.Errorf("postroom: a payload with ContentType is a []byte, not %T", event.Payload)
	}
	headers, err := encode(orEmpty(event.Headers))
	if err != nil {
		return Call{}, err
	}
	attributes, err := encode(orEmpty(event.Attributes))
	if err != nil {
		return Call{}, err
	}
	given = append(given,
		parameter{"type", "cast($%d as text)", event.Type},
		text("key", event.Key),
		payload,
		text("id", event.ID),
		text("aggregate_type", event.AggregateType),
		text("aggregate_id", event.AggregateID),
		text("tenant", event.Tenant),
		parameter{"headers", "cast(cast($%d as text) as jsonb)", headers},
		parameter{"attributes", "cast(cast($%d as text) as jsonb)", attributes},
		text("correlation_id", event.CorrelationID),
		text("causation_id", event.CausationID),
		parameter{"schema_version", "cast($%d as int)", version(event)},
		parameter{"occurred_at", "cast(cast($%d as text) as timestamptz)", at(event.OccurredAt)},
		parameter{"available_at", "cast(cast($%d as text) as timestamptz)", at(event.AvailableAt)},
	)
	name, err := Quoted(schema)
	arguments, args := make([]string, len(given)), make([]any, len(given))
	for i, one := range given {
		arguments[i], args[i] = one.name+" => "+fmt.Sprintf(one.cast, i+1), one.value
	}
	return Call{fmt.Sprintf("select %s.%s(%s)", name, function, strings.Join(arguments, ", ")), args}, err
}

func list(event Event) (string, error) {
	if event.ContentType != "" {
		return "", errors.New("postroom: AppendMany takes JSON payloads only: leave ContentType out")
	}
	payload, err := encode(event.Payload)
	if err != nil {
		return "", err
	}
	// A text that is not one whole value would become part of the list.
	if !json.Valid([]byte(payload)) {
		return "", errors.New("postroom: the payload of an event is not JSON")
	}
	fields, err := encode(map[string]any{
		"type": event.Type, "key": null(event.Key), "id": null(event.ID), "aggregate_type": null(event.AggregateType),
		"aggregate_id": null(event.AggregateID), "tenant": null(event.Tenant), "headers": orEmpty(event.Headers),
		"attributes": orEmpty(event.Attributes), "correlation_id": null(event.CorrelationID),
		"causation_id": null(event.CausationID), "schema_version": version(event), "occurred_at": at(event.OccurredAt),
		"available_at": at(event.AvailableAt),
	})
	// Beside the other fields: encoding/json would remove spaces from it.
	return strings.TrimSuffix(fields, "}") + `,"payload":` + payload + "}", err
}

// encode returns the value as JSON, and JSON as it is.
func encode(value any) (string, error) {
	switch value := value.(type) {
	case json.RawMessage:
		return string(value), nil
	case []byte:
		return "", errors.New("postroom: a payload of []byte needs a ContentType; JSON is a json.RawMessage")
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return "", fmt.Errorf("postroom: %w", err)
	}
	return strings.TrimSuffix(text.String(), "\n"), nil
}

func text(name, value string) parameter {
	return parameter{name, "cast($%d as text)", null(value)}
}

func null(value string) any {
	if value == "" {
		return nil
	}
	return value
}

func orEmpty[V any](values map[string]V) map[string]V {
	if values == nil {
		return map[string]V{}
	}
	return values
}

func version(event Event) int {
	if event.SchemaVersion == 0 {
		return 1
	}
	return event.SchemaVersion
}

func at(moment time.Time) any {
	if moment.IsZero() {
		return nil
	}
	return moment.Format(time.RFC3339Nano)
}
