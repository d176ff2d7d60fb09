package postroom_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	_ "github.com/jackc/pgx/v5/stdlib"
	postroom "github.com/postroom/postroom/clients/go"
	"github.com/postroom/postroom/clients/go/postroompgx"
	"github.com/postroom/postroom/clients/go/postroomtest"
)

var (
	ctx    = context.Background()
	outbox postroom.Outbox
)

// open returns the shop's database.
func open(t *testing.T) *sql.DB {
	t.Helper()
	db := must(sql.Open("pgx", os.Getenv("DATABASE_URL")))
	t.Cleanup(func() { db.Close() })
	return db
}

// begin returns a transaction that is rolled back in the end.
func begin(t *testing.T, db *sql.DB) *sql.Tx {
	t.Helper()
	tx := must(db.Begin())
	t.Cleanup(func() { _ = tx.Rollback() })
	return tx
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func payload(tx *sql.Tx, id string) (text string, err error) {
	err = tx.QueryRow("select convert_from(payload, 'UTF8') from postroom.log where id = $1", id).Scan(&text)
	return text, err
}

func TestTheEventIsThereIfAndOnlyIfTheTransactionCommits(t *testing.T) {
	db := open(t)
	tx := begin(t, db)
	gone := must(outbox.Append(ctx, tx, postroom.Event{Type: "shop.opened"}))
	_ = tx.Rollback()
	tx = begin(t, db)
	kept := must(outbox.Append(ctx, tx, postroom.Event{Type: "shop.opened", Key: "shop-1", Payload: map[string]string{"name": "<Ä>"}}))
	for _, isNew := range []bool{true, false} {
		if must(outbox.Accept(ctx, tx, "books", kept)) != isNew {
			t.Fatal("accepted twice, or not at all")
		}
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	tx = begin(t, db)
	if text, err := payload(tx, kept); err != nil || text != `{"name":"<Ä>"}` {
		t.Fatal(text, err)
	}
	if _, err := payload(tx, gone); !errors.Is(err, sql.ErrNoRows) {
		t.Fatal(err)
	}
}

func TestEveryCallWorksInATransactionOfPgx(t *testing.T) {
	conn := must(pgx.Connect(ctx, os.Getenv("DATABASE_URL")))
	defer conn.Close(ctx)
	tx := must(conn.Begin(ctx))
	defer func() { _ = tx.Rollback(ctx) }()
	var outbox postroompgx.Outbox
	one := must(outbox.Append(ctx, tx, postroom.Event{Type: "shop.opened", Key: "shop-1", Payload: []int{1}}))
	must(outbox.Append(ctx, tx, postroom.Event{Type: "shop.drawn", Payload: []byte{0}, ContentType: "image/png"}))
	if many := must(outbox.AppendMany(ctx, tx, postroom.Event{Type: "shop.moved"}, postroom.Event{Type: "shop.closed"})); len(many) != 2 {
		t.Fatal(many)
	}
	for _, wanted := range []bool{true, false} {
		id, appended, err := outbox.AppendOnce(ctx, tx, one, postroom.Event{Type: "shop.opened"})
		if err != nil || appended != wanted || (id != "") != wanted {
			t.Fatal(id, appended, err)
		}
		if must(outbox.Accept(ctx, tx, "books", one)) != wanted {
			t.Fatal("accepted twice, or not at all")
		}
	}
	found := postroomtest.AssertAppendedPgx(t, tx, postroomtest.Wanted{Type: "shop.opened", PayloadContains: []int{1}})
	if found.ID != one {
		t.Fatal(found)
	}
	postroomtest.AssertNotAppendedPgx(t, tx, postroomtest.Wanted{Type: "shop.sold"})
}

func TestEveryFieldArrives(t *testing.T) {
	when := time.Date(2026, 11, 1, 9, 30, 0, 123_000_000, time.UTC)
	event := postroom.Event{
		Type: "shop.opened", Key: "k", Payload: json.RawMessage(`{"a": 1}`), ID: "e-1", AggregateType: "shop", AggregateID: "shop-1",
		Tenant: "acme", Headers: map[string]string{"traceparent": "00-1"}, Attributes: map[string]any{"station_id": 12},
		CorrelationID: "request-31", CausationID: "e-0", SchemaVersion: 2, OccurredAt: when, AvailableAt: when,
	}
	db := open(t)
	for name, appended := range map[string]func(*sql.Tx) (string, error){
		"Append": func(tx *sql.Tx) (string, error) { return outbox.Append(ctx, tx, event) },
		"AppendOnce": func(tx *sql.Tx) (string, error) {
			id, _, err := outbox.AppendOnce(ctx, tx, "request-31", event)
			return id, err
		},
		"AppendMany": func(tx *sql.Tx) (string, error) {
			ids, err := outbox.AppendMany(ctx, tx, event)
			return strings.Join(ids, ","), err
		},
	} {
		tx := begin(t, db)
		if id := must(appended(tx)); id != "e-1" {
			t.Fatal(name, id)
		}
		var text string
		row := tx.QueryRow(`select concat_ws(' ', type, key, convert_from(payload, 'UTF8'), aggregate_type, aggregate_id, tenant, headers,
			attributes, correlation_id, causation_id, schema_version, occurred_at = $1, available_at = $1) from postroom.log
			where id = 'e-1'`, when)
		if err := row.Scan(&text); err != nil {
			t.Fatal(err)
		}
		expected := `shop.opened k {"a": 1} shop shop-1 acme {"traceparent": "00-1"} {"station_id": 12} request-31 e-0 2 t t`
		if text != expected {
			t.Fatalf("%s: %s", name, text)
		}
		_ = tx.Rollback()
	}
}

func TestPayloadsAreKeptByteForByte(t *testing.T) {
	tx := begin(t, open(t))
	text := json.RawMessage(`{"b":1,  "a" :"é<"}`)
	ids := must(outbox.AppendMany(ctx, tx, postroom.Event{Type: "a", Payload: text}, postroom.Event{Type: "a"}))
	ids = append(ids, must(outbox.Append(ctx, tx, postroom.Event{Type: "a", Payload: text})))
	ids = append(ids, must(outbox.Append(ctx, tx, postroom.Event{Type: "a", Payload: []byte("%PDF"), ContentType: "application/pdf"})))
	var stored []string
	for _, id := range ids {
		stored = append(stored, must(payload(tx, id)))
	}
	if expected := []string{string(text), "null", string(text), "%PDF"}; !reflect.DeepEqual(stored, expected) {
		t.Fatal(stored)
	}
}

func TestAnIdempotencyKeyAppendsOnce(t *testing.T) {
	tx := begin(t, open(t))
	for _, wanted := range []bool{true, false} {
		if _, appended, err := outbox.AppendOnce(ctx, tx, "request-1", postroom.Event{Type: "a"}); err != nil || appended != wanted {
			t.Fatal(appended, err)
		}
	}
}

func TestMistakesAreNamed(t *testing.T) {
	db := open(t)
	named := func(err error, words string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), words) {
			t.Fatalf("%v does not name %q", err, words)
		}
	}
	tx := begin(t, db)
	// A payload that is not one JSON value cannot smuggle an event in.
	_, err := outbox.AppendMany(ctx, tx, postroom.Event{Type: "a", Payload: json.RawMessage(`1}, {"type": "b"`)})
	named(err, "not JSON")
	_, err = outbox.Append(ctx, tx, postroom.Event{Type: "a", Payload: []byte("{}")})
	named(err, "json.RawMessage")
	_, err = outbox.Append(ctx, tx, postroom.Event{Type: "a", Payload: "text", ContentType: "text/plain"})
	named(err, "[]byte, not string")
	_, err = postroom.Outbox{Schema: `a"b`}.Append(ctx, tx, postroom.Event{Type: "a"})
	named(err, "name of a schema")
	_, err = outbox.Append(ctx, tx, postroom.Event{Type: "a", Key: "a\nb"})
	named(err, "event key contains a control character")
	var refused *pgconn.PgError
	if !errors.As(err, &refused) || refused.Code != "22023" {
		t.Fatal(err)
	}
}

// failing keeps what a failed test would say.
type failing struct {
	testing.TB
	said string
}

func (f *failing) Fatalf(format string, args ...any) {
	f.said = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func TestAssertionsSeeOnlyTheOpenTransactionAndShowNoPayload(t *testing.T) {
	tx := begin(t, open(t))
	postroomtest.AssertNotAppended(t, tx, postroomtest.Wanted{Type: "shop.opened"})
	deep := map[string]any{"secret": 1, "deep": map[string]int{"x": 1, "y": 2}}
	must(outbox.Append(ctx, tx, postroom.Event{Type: "shop.moved", Key: "shop-1", Payload: deep}))
	part := map[string]any{"deep": map[string]int{"x": 1}}
	postroomtest.AssertAppended(t, tx, postroomtest.Wanted{Type: "shop.moved", Key: "shop-1", PayloadContains: part})
	said := func(assert func(testing.TB)) string {
		failed, ended := &failing{TB: t}, make(chan struct{})
		go func() {
			defer close(ended)
			assert(failed)
		}()
		<-ended
		return failed.said
	}
	for _, wanted := range []postroomtest.Wanted{
		{Type: "shop.moved", Key: "shop-2"},
		{Type: "shop.moved", PayloadContains: map[string]int{"secret": 2}},
	} {
		text := said(func(t testing.TB) { postroomtest.AssertAppended(t, tx, wanted) })
		if text != `no such "shop.moved" was appended; there is shop.moved (key shop-1)` {
			t.Fatal(text)
		}
	}
	text := said(func(t testing.TB) { postroomtest.AssertNotAppended(t, tx, postroomtest.Wanted{Type: "shop.moved"}) })
	if text != `"shop.moved" was appended; there is shop.moved (key shop-1)` {
		t.Fatal(text)
	}
}
