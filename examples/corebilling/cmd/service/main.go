// The billing service: POST /subscriptions/ID, customers who subscribe, a few per second, and a page of its numbers.
package main

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strings"
	"time"

	_ "github.com/lib/pq"

	"corebilling/outbox"
)

func main() {
	db, err := sql.Open("postgres", os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	go func() {
		for {
			if _, err := subscribe(context.Background(), db, "sub-"+outbox.NewULID()); err != nil {
				log.Print(err)
			}
			time.Sleep(300 * time.Millisecond)
		}
	}()
	http.HandleFunc("/", func(response http.ResponseWriter, request *http.Request) { serve(response, request, db) })
	log.Fatal(http.ListenAndServe(os.Getenv("LISTEN"), nil))
}

func serve(response http.ResponseWriter, request *http.Request, db *sql.DB) {
	id := strings.TrimPrefix(request.URL.Path, "/subscriptions/")
	if request.Method != http.MethodPost || id == "" {
		page(response, db)
		return
	}
	isNew, err := subscribe(request.Context(), db, id)
	if err != nil {
		log.Print(err)
		http.Error(response, `{"error":"try again"}`, http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintf(response, `{"subscription":%q,"new":%t}`+"\n", id, isNew)
}

// The subscription and its event are one commit. One that is there already makes no second event.
func subscribe(ctx context.Context, db *sql.DB, id string) (bool, error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return false, err
	}
	defer tx.Rollback()
	result, err := tx.ExecContext(ctx, "insert into subscriptions values ($1, 'acme', 'created') on conflict do nothing", id)
	if err != nil {
		return false, err
	}
	if rows, err := result.RowsAffected(); err != nil || rows == 0 {
		return false, err
	}
	event := outbox.Event{
		Subject:       os.Getenv("SUBJECT_PREFIX") + "subscription.created",
		TenantID:      "acme",
		ResourceID:    id,
		CorrelationID: "request-" + id,
		Payload:       map[string]any{"plan": "yearly"},
	}
	if err := outbox.Insert(ctx, tx, event); err != nil {
		return false, err
	}
	return true, tx.Commit()
}

var queries = [][2]string{
	{"subscriptions", "select count(*) from subscriptions"},
	{"pending events", "select count(*) from billing_events where payload->>'outbox_status' = 'pending'"},
	{"dispatched events", "select count(*) from billing_events where payload->>'outbox_status' = 'dispatched'"},
	{"dead letters", "select count(*) from billing_events where payload->>'outbox_status' = 'dead_letter'"},
	{"welcome mails", "select count(*) from welcome_mails"},
}

func page(response io.Writer, db *sql.DB) {
	fmt.Fprint(response, `<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="2"><title>billing</title><h1>Billing</h1><table>`, "\n")
	for _, query := range queries {
		var number int64
		if err := db.QueryRow(query[1]).Scan(&number); err != nil {
			log.Print(err)
		}
		fmt.Fprintf(response, "<tr><td>%s</td><td>%d</td></tr>\n", query[0], number)
	}
	relay := os.Getenv("POSTROOM_HTTP__LISTEN")
	fmt.Fprintf(response, `</table><p><a href="http://%[1]s/">the relay's console</a>, <a href="http://%[1]s/metrics">its metrics</a>`+"\n", relay)
}
