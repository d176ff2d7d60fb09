// Package eventing writes events: one envelope around each, one row of event_outbox in the transaction of what it tells.
package eventing

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"time"
)

// Envelope is what surrounds every event, in the outbox, among the dead letters and on its way to a handler.
type Envelope struct {
	EventID       string          `json:"event_id"`
	OccurredAt    time.Time       `json:"occurred_at"`
	CorrelationID string          `json:"correlation_id"`
	TenantID      string          `json:"tenant_id"`
	StationID     string          `json:"station_id"`
	SchemaVersion int             `json:"schema_version"`
	Payload       json.RawMessage `json:"payload"`
}

// TelemetryWindowClosed: a station's meter has been read for a window of time.
type TelemetryWindowClosed struct {
	KWh int64 `json:"kwh"`
}

// StatisticCalculated: a window has become a number that people look at.
type StatisticCalculated struct {
	KWh int64 `json:"kwh"`
}

// SettlementCalculated: a number has become money.
type SettlementCalculated struct {
	Cents int64 `json:"cents"`
}

type correlation struct{}

// WithCorrelationID returns a context whose events get this correlation id.
func WithCorrelationID(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, correlation{}, id)
}

// Append writes an event in the transaction of what it tells.
func Append(ctx context.Context, tx *sql.Tx, eventType, tenant, station string, payload any) error {
	body, err := json.Marshal(payload)
	if err != nil {
		return err
	}
	id := newID()
	event := Envelope{id, time.Now().UTC(), id, tenant, station, 1, body}
	if correlationID, ok := ctx.Value(correlation{}).(string); ok {
		event.CorrelationID = correlationID
	}
	envelope, err := json.Marshal(event)
	if err != nil {
		return err
	}
	insert := "insert into event_outbox (id, event_id, event_type, payload) values ($1, $1, $2, $3)"
	_, err = tx.ExecContext(ctx, insert, id, eventType, envelope)
	return err
}

func newID() string {
	var bytes [16]byte
	if _, err := rand.Read(bytes[:]); err != nil {
		panic(err)
	}
	return hex.EncodeToString(bytes[:])
}
