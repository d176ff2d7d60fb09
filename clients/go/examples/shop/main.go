// The order and its event commit together, or neither does.
package main

import (
	"context"
	"database/sql"
	"log"
	"os"

	_ "github.com/jackc/pgx/v5/stdlib"
	postroom "github.com/postroom/postroom/clients/go"
)

func placeOrder(ctx context.Context, db *sql.DB) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // does nothing after a commit
	if _, err := tx.ExecContext(ctx, "insert into orders (id, total) values ('order-7', 4200)"); err != nil {
		return err
	}
	var outbox postroom.Outbox
	event := postroom.Event{Type: "order.placed", Key: "order-7", Payload: map[string]int{"total": 4200}}
	if _, err := outbox.Append(ctx, tx, event); err != nil {
		return err
	}
	return tx.Commit()
}

func main() {
	db, err := sql.Open("pgx", os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	if err := placeOrder(context.Background(), db); err != nil {
		log.Fatal(err)
	}
}
