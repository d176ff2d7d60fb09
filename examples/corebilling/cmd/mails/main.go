// The consumer: a subscription that was created becomes a trial and gets a mail, once, however often its event comes.
package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"log"
	"os"

	_ "github.com/lib/pq"
	"github.com/segmentio/kafka-go"
)

type envelope struct {
	ID         string `json:"id"`
	ResourceID string `json:"resource_id"`
}

func main() {
	db, err := sql.Open("postgres", os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	prefix := os.Getenv("SUBJECT_PREFIX")
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers:     []string{os.Getenv("KAFKA_BROKERS")},
		GroupID:     prefix + "mails",
		Topic:       prefix + "subscription.created",
		StartOffset: kafka.FirstOffset,
	})
	for {
		ctx := context.Background()
		message, err := reader.FetchMessage(ctx)
		if err != nil {
			log.Fatal(err)
		}
		var event envelope
		if err := json.Unmarshal(message.Value, &event); err != nil {
			log.Fatal(err)
		}
		if err := accept(ctx, db, event); err != nil {
			log.Fatal(err)
		}
		if err := reader.CommitMessages(ctx, message); err != nil {
			log.Fatal(err)
		}
	}
}

// First the inbox, then the guarded step and its effect, in one transaction: a crash leaves all or none.
func accept(ctx context.Context, db *sql.DB, event envelope) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	for _, step := range []struct {
		sql  string
		args []any
	}{
		{"insert into accepted_events values ('mails', $1) on conflict do nothing", []any{event.ID}},
		{"update subscriptions set status = 'trialing' where id = $1 and status = 'created'", []any{event.ResourceID}},
		{"insert into welcome_mails values ($1)", []any{event.ResourceID}},
	} {
		result, err := tx.ExecContext(ctx, step.sql, step.args...)
		if err != nil {
			return err
		}
		// A copy, or a row that was inserted again under a new id: the subscription is past this step.
		if rows, err := result.RowsAffected(); err != nil || rows == 0 {
			return err
		}
	}
	return tx.Commit()
}
