// The metering service: closes windows of its stations, a few per second, and shows a page of its numbers.
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

	"m4/eventing"
)

// The last one has no tariff.
var stations = []string{"station-1", "station-2", "station-1", "station-2", "station-9"}

func main() {
	db, err := sql.Open("postgres", os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	go func() {
		for number := 0; ; number++ {
			ctx := eventing.WithCorrelationID(context.Background(), fmt.Sprintf("reading-%d", number))
			if err := closeWindow(ctx, db, stations[number%len(stations)], int64(number%50)); err != nil {
				log.Print(err)
			}
			time.Sleep(300 * time.Millisecond)
		}
	}()
	http.HandleFunc("/", func(response http.ResponseWriter, _ *http.Request) { page(response, db) })
	log.Fatal(http.ListenAndServe(os.Getenv("LISTEN"), nil))
}

// The reading and its event are one commit.
func closeWindow(ctx context.Context, db *sql.DB, station string, kwh int64) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, "insert into windows values ($1, $2)", station, kwh); err != nil {
		return err
	}
	if err := eventing.Append(ctx, tx, "TelemetryWindowClosed", "acme", station, eventing.TelemetryWindowClosed{KWh: kwh}); err != nil {
		return err
	}
	return tx.Commit()
}

var queries = [][2]string{
	{"windows", "select count(*) from windows"},
	{"pending events", "select count(*) from event_outbox where status = 'pending'"},
	{"sent events", "select count(*) from event_outbox where status = 'sent'"},
	{"failed events", "select count(*) from event_outbox where status = 'failed'"},
	{"invoices", "select count(*) from invoices"},
}

func page(response io.Writer, db *sql.DB) {
	relay := os.Getenv("POSTROOM_HTTP__LISTEN")
	fmt.Fprint(response, `<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="2"><title>m4</title><h1>M4</h1><table>`, "\n")
	for _, query := range queries {
		var number int64
		if err := db.QueryRow(query[1]).Scan(&number); err != nil {
			fmt.Fprintf(response, "<tr><td>%s</td><td>%s</td></tr>\n", query[0], err)
			continue
		}
		fmt.Fprintf(response, "<tr><td>%s</td><td>%d</td></tr>\n", query[0], number)
	}
	fmt.Fprintf(response, "<tr><td>dead letters</td><td>%s</td></tr>\n", deadLetters(relay))
	fmt.Fprintf(response, `</table><p><a href="http://%[1]s/">the relay's console</a>, <a href="http://%[1]s/metrics">its metrics</a>`+"\n", relay)
}

// The relay's own number.
func deadLetters(relay string) string {
	answer, err := http.Get("http://" + relay + "/metrics")
	if err != nil {
		return "the relay does not run"
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(answer.Body)
	for _, line := range strings.Split(string(text), "\n") {
		if strings.HasPrefix(line, "postroom_dead_letters{") {
			return line[strings.LastIndex(line, " ")+1:]
		}
	}
	return "–"
}
