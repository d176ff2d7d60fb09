// Package postroomtest has assertions for your tests: what the open transaction has appended. The role of the test must be able
// to read the log.
package postroomtest

import (
	"context"
	"database/sql"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/postroom/postroom/clients/go/internal/call"
)

// Wanted describes an event. Only Type is required.
type Wanted struct {
	Type string
	Key  string
	// PayloadContains are members that the payload has at least, as @> of PostgreSQL compares them.
	PayloadContains any
	// Schema of the store's tables; postroom if empty.
	Schema string
}

// Appended is an event that the transaction has appended.
type Appended struct {
	ID, Type, Key string
	wanted        bool
}

// AssertAppended ends the test unless tx has appended such an event, and returns the first one. The message lists types and keys,
// without payloads.
func AssertAppended(t testing.TB, tx *sql.Tx, wanted Wanted) Appended {
	t.Helper()
	return first(t, wanted, read(t, tx, wanted))
}

// AssertNotAppended ends the test if tx has appended such an event.
func AssertNotAppended(t testing.TB, tx *sql.Tx, wanted Wanted) {
	t.Helper()
	none(t, wanted, read(t, tx, wanted))
}

// AssertAppendedPgx is AssertAppended for a transaction of pgx.
func AssertAppendedPgx(t testing.TB, tx pgx.Tx, wanted Wanted) Appended {
	t.Helper()
	return first(t, wanted, readPgx(t, tx, wanted))
}

// AssertNotAppendedPgx is AssertNotAppended for a transaction of pgx.
func AssertNotAppendedPgx(t testing.TB, tx pgx.Tx, wanted Wanted) {
	t.Helper()
	none(t, wanted, readPgx(t, tx, wanted))
}

func first(t testing.TB, wanted Wanted, rows []Appended) Appended {
	t.Helper()
	for _, row := range rows {
		if row.wanted {
			return row
		}
	}
	t.Fatalf("no such %q was appended; there is %s", wanted.Type, list(rows))
	return Appended{}
}

func none(t testing.TB, wanted Wanted, rows []Appended) {
	t.Helper()
	for _, row := range rows {
		if row.wanted {
			t.Fatalf("%q was appended; there is %s", wanted.Type, list(rows))
		}
	}
}

func read(t testing.TB, tx *sql.Tx, wanted Wanted) []Appended {
	t.Helper()
	c := statement(t, wanted)
	rows, err := tx.QueryContext(context.Background(), c.SQL, c.Args...)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	return scan(t, rows)
}

func readPgx(t testing.TB, tx pgx.Tx, wanted Wanted) []Appended {
	t.Helper()
	c := statement(t, wanted)
	rows, err := tx.Query(context.Background(), c.SQL, c.Args...)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	return scan(t, rows)
}

func statement(t testing.TB, wanted Wanted) call.Call {
	t.Helper()
	c, err := call.Appended(wanted.Schema, wanted.Type, wanted.Key, wanted.PayloadContains)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// rows of either driver.
type rows interface {
	Next() bool
	Scan(into ...any) error
	Err() error
}

func scan(t testing.TB, from rows) (all []Appended) {
	t.Helper()
	for from.Next() {
		var row Appended
		if err := from.Scan(&row.ID, &row.Type, &row.Key, &row.wanted); err != nil {
			t.Fatal(err)
		}
		all = append(all, row)
	}
	if err := from.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

func list(rows []Appended) string {
	if len(rows) == 0 {
		return "nothing"
	}
	names := make([]string, len(rows))
	for i, row := range rows {
		names[i] = row.Type
		if row.Key != "" {
			names[i] += " (key " + row.Key + ")"
		}
	}
	return strings.Join(names, ", ")
}
