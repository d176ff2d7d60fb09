// The team's dispatcher, which the relay replaces: reads pending rows, hands them to the handlers of its own process, marks them.
//
// It is kept as it was, with what was wrong about it: two of it hand out every event twice, and a crash leaves no trace of what was
// in flight.
package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"log"
	"os"
	"time"

	_ "github.com/lib/pq"

	"m4/eventing"
	"m4/handlers"
)

func main() {
	db, err := sql.Open("postgres", os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	for {
		if err := dispatch(db); err != nil {
			log.Print(err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

type row struct {
	id, eventID, eventType string
	payload                []byte
}

func dispatch(db *sql.DB) error {
	found, err := db.Query("select id, event_id, event_type, payload from event_outbox where status = 'pending' order by created_at, id limit 100")
	if err != nil {
		return err
	}
	var rows []row
	for found.Next() {
		var row row
		if err := found.Scan(&row.id, &row.eventID, &row.eventType, &row.payload); err != nil {
			return err
		}
		rows = append(rows, row)
	}
	for _, row := range rows {
		var event eventing.Envelope
		if err := json.Unmarshal(row.payload, &event); err != nil {
			return err
		}
		failed := handlers.Handle(context.Background(), db, row.eventType, event)
		if len(failed) == 0 {
			_, err = db.Exec("update event_outbox set status = 'sent', sent_at = now() where id = $1", row.id)
		} else {
			err = deadLetter(db, row, failed[0].Handler+": "+failed[0].Error)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func deadLetter(db *sql.DB, row row, reason string) error {
	if _, err := db.Exec("update event_outbox set status = 'failed', attempts = attempts + 1 where id = $1", row.id); err != nil {
		return err
	}
	insert := `insert into dead_letter_events as d (event_id, event_type, payload, error) values ($1, $2, $3, $4)
		on conflict (event_id) do update set error = excluded.error, last_seen_at = now(), attempts = d.attempts + 1`
	_, err := db.Exec(insert, row.eventID, row.eventType, row.payload, reason)
	return err
}
