// Books each order once, until SIGTERM.
package main

import (
	"context"
	"encoding/json"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	postroom "github.com/postroom/postroom/clients/go"
	"github.com/postroom/postroom/clients/go/postroompgx"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	db, err := pgxpool.New(context.Background(), os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	var outbox postroompgx.Outbox
	book := func(ctx context.Context, event postroom.Incoming) error {
		var order struct{ Total int }
		if err := json.Unmarshal(event.Data, &order); err != nil {
			return &postroom.Failure{Err: err, Permanent: true}
		}
		return pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
			isNew, err := outbox.Accept(ctx, tx, "books", event.ID) // in the transaction of the effect
			if err != nil || !isNew {
				return err
			}
			_, err = tx.Exec(ctx, "insert into booked (order_id, total) values ($1, $2)", event.Key, order.Total)
			return err
		})
	}
	worker := postroom.Worker{URL: os.Getenv("WORKER_URL"), Route: "mailer", Token: os.Getenv("WORKER_TOKEN"), Handle: book}
	if err := worker.Run(ctx); err != nil {
		log.Fatal(err)
	}
}
