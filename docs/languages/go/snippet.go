// go run ., with DATABASE_URL set; needs github.com/lib/pq.
package main

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/lib/pq"
)

// placeOrder commits the order and its event together, or neither.
func placeOrder(db *sql.DB, order string, total int) (id string, err error) {
	tx, err := db.Begin()
	if err != nil {
		return "", err
	}
	defer tx.Rollback() // does nothing after a commit
	if _, err = tx.Exec("insert into orders (id, total) values ($1, $2)", order, total); err != nil {
		return "", err
	}
	payload, err := json.Marshal(map[string]int{"total": total})
	if err != nil {
		return "", err
	}
	row := tx.QueryRow("select postroom.append('order.placed', $1, $2)", order, string(payload))
	if err = row.Scan(&id); err != nil {
		return "", err
	}
	return id, tx.Commit()
}

// book remembers the id in the transaction of the effect, so a second delivery changes nothing.
func book(db *sql.DB, id, order string, total int) error {
	tx, err := db.Begin()
	if err != nil {
		return err
	}
	defer tx.Rollback()
	var isNew bool
	if err = tx.QueryRow("select postroom.accept('books', $1)", id).Scan(&isNew); err != nil {
		return err
	}
	if isNew {
		if _, err = tx.Exec("insert into booked (order_id, total) values ($1, $2)", order, total); err != nil {
			return err
		}
	}
	return tx.Commit()
}

func main() {
	db, err := sql.Open("postgres", os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	id, err := placeOrder(db, "order-7", 4200)
	if err != nil {
		log.Fatal(err)
	}
	for range []int{1, 2} { // delivered twice, booked once
		if err = book(db, id, "order-7", 4200); err != nil {
			log.Fatal(err)
		}
	}
	_, err = placeOrder(db, "order-8\n", 100)
	var refused *pq.Error
	if errors.As(err, &refused) {
		fmt.Println(refused.Code, refused.Message)
	}
}
