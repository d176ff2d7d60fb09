// The handlers as a program that the relay starts: it reads a line per event and answers with a line.
package main

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"log"
	"os"

	_ "github.com/lib/pq"

	"m4/eventing"
	"m4/handlers"
)

type request struct {
	ID       string            `json:"id"`
	Type     string            `json:"type"`
	Envelope eventing.Envelope `json:"envelope"`
}

type answer struct {
	ID     string             `json:"id"`
	OK     bool               `json:"ok,omitempty"`
	Errors []handlers.Failure `json:"errors,omitempty"`
}

func main() {
	// The relay keeps DATABASE_URL to itself.
	db, err := sql.Open("postgres", os.Getenv("M4_DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 4<<20)
	for lines.Scan() {
		var event request
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			log.Fatal(err)
		}
		// Without a database no event is to blame: the program ends, and the relay counts no attempt.
		if err := db.Ping(); err != nil {
			log.Fatal(err)
		}
		failed := handlers.Handle(context.Background(), db, event.Type, event.Envelope)
		if err := json.NewEncoder(os.Stdout).Encode(answer{event.ID, len(failed) == 0, failed}); err != nil {
			log.Fatal(err)
		}
	}
}
