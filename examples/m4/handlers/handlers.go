// Package handlers is what the service does about events. Each handler's work and its row in processed_events are one
// transaction, so that an event may come twice.
package handlers

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"

	"m4/eventing"
)

// Failure is a handler that could not do its work.
type Failure struct {
	Handler string `json:"handler"`
	Error   string `json:"error"`
}

type handler struct {
	name string
	work func(context.Context, *sql.Tx, eventing.Envelope) error
}

var subscribed = map[string][]handler{
	"TelemetryWindowClosed": {{"statistics", statistics}},
	"StatisticCalculated":   {{"dashboard", dashboard}, {"settlement", settlement}},
	"SettlementCalculated":  {{"invoices", invoices}},
}

// Handle hands an event to each handler of its type that has not done it yet. An event that nobody has subscribed is done.
func Handle(ctx context.Context, db *sql.DB, eventType string, event eventing.Envelope) (failed []Failure) {
	ctx = eventing.WithCorrelationID(ctx, event.CorrelationID)
	for _, handler := range subscribed[eventType] {
		if err := once(ctx, db, handler, event); err != nil {
			failed = append(failed, Failure{handler.name, err.Error()})
		}
	}
	return failed
}

// First the row, then the work, in one transaction: two that handle the same event at the same time wait for each other.
func once(ctx context.Context, db *sql.DB, handler handler, event eventing.Envelope) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	insert := "insert into processed_events (event_id, consumer_name) values ($1, $2) on conflict do nothing"
	result, err := tx.ExecContext(ctx, insert, event.EventID, handler.name)
	if err != nil {
		return err
	}
	if rows, err := result.RowsAffected(); err != nil || rows == 0 {
		return err
	}
	if err := handler.work(ctx, tx, event); err != nil {
		return err
	}
	return tx.Commit()
}

func statistics(ctx context.Context, tx *sql.Tx, event eventing.Envelope) error {
	var window eventing.TelemetryWindowClosed
	if err := json.Unmarshal(event.Payload, &window); err != nil {
		return err
	}
	statistic := eventing.StatisticCalculated{KWh: window.KWh}
	return eventing.Append(ctx, tx, "StatisticCalculated", event.TenantID, event.StationID, statistic)
}

func dashboard(ctx context.Context, tx *sql.Tx, event eventing.Envelope) error {
	var statistic eventing.StatisticCalculated
	if err := json.Unmarshal(event.Payload, &statistic); err != nil {
		return err
	}
	add := `insert into dashboards as d values ($1, $2, 1)
		on conflict (station) do update set kwh = d.kwh + excluded.kwh, updates = d.updates + 1`
	_, err := tx.ExecContext(ctx, add, event.StationID, statistic.KWh)
	return err
}

func settlement(ctx context.Context, tx *sql.Tx, event eventing.Envelope) error {
	var statistic eventing.StatisticCalculated
	if err := json.Unmarshal(event.Payload, &statistic); err != nil {
		return err
	}
	var tariff int64
	find := "select cents_per_kwh from tariffs where station = $1"
	if err := tx.QueryRowContext(ctx, find, event.StationID).Scan(&tariff); err == sql.ErrNoRows {
		return fmt.Errorf("%s has no tariff", event.StationID)
	} else if err != nil {
		return err
	}
	cents := statistic.KWh * tariff
	if _, err := tx.ExecContext(ctx, "insert into settlements values ($1, $2)", event.StationID, cents); err != nil {
		return err
	}
	settled := eventing.SettlementCalculated{Cents: cents}
	return eventing.Append(ctx, tx, "SettlementCalculated", event.TenantID, event.StationID, settled)
}

func invoices(ctx context.Context, tx *sql.Tx, event eventing.Envelope) error {
	var settled eventing.SettlementCalculated
	if err := json.Unmarshal(event.Payload, &settled); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, "insert into invoices values ($1, $2)", event.StationID, settled.Cents)
	return err
}
