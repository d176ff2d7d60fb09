// A worker that pulls events of the route mailer and settles them. Standard library only.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"time"
)

type event struct {
	Lease    string `json:"lease"`
	ID       string `json:"id"`
	Attempt  int    `json:"attempt"`
	Envelope struct {
		Type string `json:"type"`
		Data struct {
			Email string `json:"email"`
		} `json:"data"`
	} `json:"envelope"`
}

type result struct {
	Lease      string `json:"lease"`
	OK         bool   `json:"ok,omitempty"`
	Error      string `json:"error,omitempty"`
	Permanent  bool   `json:"permanent,omitempty"`
	RetryAfter string `json:"retry_after,omitempty"`
}

var errNobody = errors.New("nobody to write to")

// handle is your work. It may see an event twice: the id stays the same.
func handle(e event) error {
	if e.Envelope.Data.Email == "" {
		return errNobody
	}
	fmt.Println("mail to", e.Envelope.Data.Email, "about", e.ID)
	return nil
}

func settled(e event) result {
	switch err := handle(e); {
	case err == nil:
		return result{Lease: e.Lease, OK: true}
	case errors.Is(err, errNobody):
		return result{Lease: e.Lease, Error: err.Error(), Permanent: true}
	default:
		return result{Lease: e.Lease, Error: err.Error(), RetryAfter: "5s"}
	}
}

func post(path string, body, answer any) error {
	base := os.Getenv("WORKER_URL")
	if base == "" {
		base = "http://127.0.0.1:7480"
	}
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	request, err := http.NewRequest("POST", base+"/api/v1/pull/mailer"+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	request.Header.Set("authorization", "Bearer "+os.Getenv("WORKER_TOKEN"))
	request.Header.Set("content-type", "application/json")
	client := http.Client{Timeout: 40 * time.Second}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != 200 {
		problem, _ := io.ReadAll(response.Body)
		log.Fatalf("%d: %s", response.StatusCode, problem)
	}
	return json.NewDecoder(response.Body).Decode(answer)
}

// turn leases some events, handles and settles them.
func turn(wait string) error {
	var events []event
	if err := post("", map[string]any{"limit": 100, "wait": wait}, &events); err != nil {
		return err
	}
	results := make([]result, 0, len(events))
	for _, e := range events {
		results = append(results, settled(e))
	}
	if len(results) == 0 {
		return nil
	}
	var done struct{ Settled int }
	return post("/settle", map[string]any{"results": results}, &done)
}

func main() {
	once, wait := len(os.Args) > 1 && os.Args[1] == "--once", "20s"
	if once {
		wait = "1s"
	}
	for {
		if err := turn(wait); err != nil { // the relay is away; what we leased comes again
			log.Print(err, "; again in a second")
			time.Sleep(time.Second)
		} else if once {
			return
		}
	}
}
