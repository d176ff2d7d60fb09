// Package postroompgx appends and accepts in a transaction of pgx.
package postroompgx

import (
	"context"

	"github.com/jackc/pgx/v5"
	postroom "github.com/postroom/postroom/clients/go"
	"github.com/postroom/postroom/clients/go/internal/call"
)

// Outbox appends and accepts. Its zero value is ready to use.
type Outbox struct {
	// Schema of the store's tables; postroom if empty.
	Schema string
}

// Append appends an event in tx and returns its id. The event is delivered if and only if tx commits.
func (o Outbox) Append(ctx context.Context, tx pgx.Tx, event postroom.Event) (id string, err error) {
	c, err := call.Append(o.Schema, event)
	if err != nil {
		return "", err
	}
	err = tx.QueryRow(ctx, c.SQL, c.Args...).Scan(&id)
	return id, err
}

// AppendOnce appends an event unless this idempotency key was used before. Appended is false if it was.
func (o Outbox) AppendOnce(ctx context.Context, tx pgx.Tx, idempotencyKey string, event postroom.Event) (id string, appended bool, err error) {
	c, err := call.AppendOnce(o.Schema, idempotencyKey, event)
	if err != nil {
		return "", false, err
	}
	var given *string
	if err = tx.QueryRow(ctx, c.SQL, c.Args...).Scan(&given); err != nil || given == nil {
		return "", false, err
	}
	return *given, true, nil
}

// AppendMany appends several events in this order, with one statement, and returns their ids.
func (o Outbox) AppendMany(ctx context.Context, tx pgx.Tx, events ...postroom.Event) ([]string, error) {
	c, err := call.AppendMany(o.Schema, events)
	if err != nil {
		return nil, err
	}
	rows, err := tx.Query(ctx, c.SQL, c.Args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// Accept records in tx that this consumer processes this event. IsNew is false if the consumer accepted the event before: then
// there is nothing to do.
func (o Outbox) Accept(ctx context.Context, tx pgx.Tx, consumer, id string) (isNew bool, err error) {
	c, err := call.Accept(o.Schema, consumer, id)
	if err != nil {
		return false, err
	}
	err = tx.QueryRow(ctx, c.SQL, c.Args...).Scan(&isNew)
	return isNew, err
}
