// Package postroom appends events in your transaction, accepts them once, and works off the routes of a Postroom relay.
//
// Append and accept take the transaction that you own, of database/sql here and of pgx in the package postroompgx. Begin, commit
// and rollback are yours.
package postroom

import (
	"context"
	"database/sql"

	"github.com/postroom/postroom/clients/go/internal/call"
)

// Event is an event to append. Only Type is required.
//
// Key decides the order: events with the same key are delivered one after the other. Payload is encoded as JSON; a
// json.RawMessage is kept byte for byte, and a []byte is anything else, if ContentType says what.
type Event = call.Event

// Outbox appends and accepts. Its zero value is ready to use.
type Outbox struct {
	// Schema of the store's tables; postroom if empty.
	Schema string
}

// Append appends an event in tx and returns its id. The event is delivered if and only if tx commits.
func (o Outbox) Append(ctx context.Context, tx *sql.Tx, event Event) (id string, err error) {
	c, err := call.Append(o.Schema, event)
	if err != nil {
		return "", err
	}
	err = tx.QueryRowContext(ctx, c.SQL, c.Args...).Scan(&id)
	return id, err
}

// AppendOnce appends an event unless this idempotency key was used before. Appended is false if it was.
func (o Outbox) AppendOnce(ctx context.Context, tx *sql.Tx, idempotencyKey string, event Event) (id string, appended bool, err error) {
	c, err := call.AppendOnce(o.Schema, idempotencyKey, event)
	if err != nil {
		return "", false, err
	}
	var given sql.NullString
	err = tx.QueryRowContext(ctx, c.SQL, c.Args...).Scan(&given)
	return given.String, given.Valid, err
}

// AppendMany appends several events in this order, with one statement, and returns their ids.
func (o Outbox) AppendMany(ctx context.Context, tx *sql.Tx, events ...Event) ([]string, error) {
	c, err := call.AppendMany(o.Schema, events)
	if err != nil {
		return nil, err
	}
	rows, err := tx.QueryContext(ctx, c.SQL, c.Args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	ids := make([]string, 0, len(events))
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, rows.Err()
}

// Accept records in tx that this consumer processes this event. IsNew is false if the consumer accepted the event before: then
// there is nothing to do.
func (o Outbox) Accept(ctx context.Context, tx *sql.Tx, consumer, id string) (isNew bool, err error) {
	c, err := call.Accept(o.Schema, consumer, id)
	if err != nil {
		return false, err
	}
	err = tx.QueryRowContext(ctx, c.SQL, c.Args...).Scan(&isNew)
	return isNew, err
}
