// Package outbox writes events: the outbox's metadata goes into the payload, and the row into the transaction of what it tells.
package outbox

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"time"
)

// ApplyMetadata puts the four keys of the outbox into a payload.
func ApplyMetadata(payload map[string]any) {
	payload["outbox_status"] = "pending"
	payload["outbox_retry_count"] = 0
	payload["outbox_next_attempt_at"] = time.Now().UTC().Format(time.RFC3339Nano)
	payload["outbox_last_error"] = nil
}

// Event is a row of billing_events.
type Event struct {
	Subject, TenantID, ResourceID, CorrelationID string
	Payload                                      map[string]any
}

// Insert writes an event.
func Insert(ctx context.Context, tx *sql.Tx, event Event) error {
	event.Payload["correlation_id"] = event.CorrelationID
	ApplyMetadata(event.Payload)
	payload, err := json.Marshal(event.Payload)
	if err != nil {
		return err
	}
	insert := "insert into billing_events (id, subject, tenant_id, resource_id, payload) values ($1, $2, $3, $4, $5)"
	_, err = tx.ExecContext(ctx, insert, NewULID(), event.Subject, event.TenantID, event.ResourceID, payload)
	return err
}

// Crockford's alphabet.
const alphabet = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

// NewULID returns an id of 26 characters that sorts by time: 48 bits of milliseconds, then 80 random bits.
func NewULID() string {
	var random [16]byte
	if _, err := rand.Read(random[:]); err != nil {
		panic(err)
	}
	var id [26]byte
	millis := uint64(time.Now().UnixMilli())
	for place := 9; place >= 0; place-- {
		id[place] = alphabet[millis&31]
		millis >>= 5
	}
	for place := range random {
		id[10+place] = alphabet[random[place]&31]
	}
	return string(id[:])
}
