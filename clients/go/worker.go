package postroom

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/url"
	"runtime/debug"
	"strings"
	"time"
)

const (
	// Results wait at most this long for others: the next event of a key comes after the one before is settled.
	settleAfter = time.Second
	// First and longest pause while the relay is away.
	firstPause, longestPause = 200 * time.Millisecond, 10 * time.Second
)

// Incoming is an event as a worker gets it. It may come twice, with the same ID.
type Incoming struct {
	ID   string
	Type string
	// Attempt counts from 1.
	Attempt int
	Route   string
	// Key is the ordering key of a CloudEvent.
	Key string
	// Data is the payload of a CloudEvent.
	Data json.RawMessage
	// Envelope is a structured CloudEvent unless the route says otherwise.
	Envelope json.RawMessage
}

// Failure is an error that says what becomes of the event. After any other error the event is retried as the route's retry says.
type Failure struct {
	Err error
	// Permanent makes the event a dead letter.
	Permanent bool
	// RetryAfter asks for another attempt after this time, if it is not 0.
	RetryAfter time.Duration
}

func (f *Failure) Error() string { return f.Err.Error() }

// Unwrap returns the cause.
func (f *Failure) Unwrap() error { return f.Err }

// WorkerError is returned when the relay refuses a worker: a wrong token, or no such route.
type WorkerError struct {
	Status int
	Detail string
}

func (e *WorkerError) Error() string {
	return fmt.Sprintf("postroom: the relay refuses the worker with %d: %s", e.Status, e.Detail)
}

// Worker leases events of a route of kind pull, runs Handle for each, one after the other, and settles the results. Run several
// for more at once.
type Worker struct {
	// URL of the relay, Route and Token are required.
	URL, Route, Token string
	// Handle does the work on an event; it is required. The event is delivered when it returns nil. Its context ends with the
	// lease, not when the worker is stopped.
	Handle func(ctx context.Context, event Incoming) error
	// Limit is the maximum number of events at once; 20 if 0.
	Limit int
	// Lease is the time that a whole batch of Limit events may take; 30 s if 0. An event whose lease has ended before its turn
	// is left to the next worker.
	Lease time.Duration
	// Wait is how long the relay waits for the first event, and so how long an idle worker takes to stop; 5 s if 0.
	Wait time.Duration
	// Logf takes messages for an operator; log.Printf if nil.
	Logf func(format string, args ...any)
}

// Run works until ctx is done. Then it finishes the events in hand, settles them, leases no more, and returns nil. It waits while
// the relay is away, and returns a *WorkerError if the relay refuses the worker.
func (w Worker) Run(ctx context.Context) error {
	if w.Limit == 0 {
		w.Limit = 20
	}
	if w.Lease == 0 {
		w.Lease = 30 * time.Second
	}
	if w.Wait == 0 {
		w.Wait = 5 * time.Second
	}
	if w.Logf == nil {
		w.Logf = log.Printf
	}
	pause := firstPause
	for ctx.Err() == nil {
		ends := time.Now().Add(w.Lease)
		var events []leased
		err := w.post("", map[string]any{"limit": w.Limit, "wait": millis(w.Wait), "lease": millis(w.Lease)}, &events)
		if err == nil {
			pause = firstPause
			err = w.work(ctx, events, ends)
		}
		var refused *WorkerError
		if errors.As(err, &refused) {
			return err
		}
		if err != nil {
			w.Logf("postroom: the relay is away, again in %v: %v", pause, err)
			select {
			case <-ctx.Done():
			case <-time.After(pause):
			}
			pause = longer(pause)
		}
	}
	return nil
}

type leased struct {
	Lease    string          `json:"lease"`
	ID       string          `json:"id"`
	Type     string          `json:"type"`
	Attempt  int             `json:"attempt"`
	Route    string          `json:"route"`
	Envelope json.RawMessage `json:"envelope"`
}

type result struct {
	Lease      string `json:"lease"`
	OK         bool   `json:"ok,omitempty"`
	Error      string `json:"error,omitempty"`
	Permanent  bool   `json:"permanent,omitempty"`
	RetryAfter string `json:"retry_after,omitempty"`
}

func (w Worker) work(ctx context.Context, events []leased, ends time.Time) error {
	handling, cancel := context.WithDeadline(detached{ctx}, ends)
	defer cancel()
	var results []result
	settled := time.Now()
	for _, event := range events {
		if !time.Now().Before(ends) {
			w.Logf("postroom: leases ended before their turn: lower Limit, or raise Lease")
			break
		}
		results = append(results, w.handle(handling, event))
		if time.Since(settled) >= settleAfter {
			if err := w.settle(results, ends); err != nil {
				return err
			}
			results, settled = nil, time.Now()
		}
	}
	return w.settle(results, ends)
}

func (w Worker) handle(ctx context.Context, event leased) result {
	incoming := Incoming{ID: event.ID, Type: event.Type, Attempt: event.Attempt, Route: event.Route, Envelope: event.Envelope}
	var cloudEvent struct {
		Key  string          `json:"partitionkey"`
		Data json.RawMessage `json:"data"`
	}
	// Another kind of envelope has neither.
	if json.Unmarshal(event.Envelope, &cloudEvent) == nil {
		incoming.Key, incoming.Data = cloudEvent.Key, cloudEvent.Data
	}
	err := w.call(ctx, incoming)
	if err == nil {
		return result{Lease: event.Lease, OK: true}
	}
	w.Logf("postroom: event %s failed: %v", event.ID, err)
	failed := result{Lease: event.Lease, Error: err.Error()}
	if failed.Error == "" {
		failed.Error = fmt.Sprintf("%T", err)
	}
	var failure *Failure
	if errors.As(err, &failure) {
		failed.Permanent = failure.Permanent
		if failure.RetryAfter > 0 {
			failed.RetryAfter = millis(failure.RetryAfter)
		}
	}
	return failed
}

// call makes an error of a panic: the other events in hand are to be settled.
func (w Worker) call(ctx context.Context, event Incoming) (err error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			w.Logf("postroom: the handler panicked\n%s", debug.Stack())
			err = fmt.Errorf("panic: %v", panicked)
		}
	}()
	return w.Handle(ctx, event)
}

func (w Worker) settle(results []result, ends time.Time) error {
	for pause := firstPause; len(results) > 0; pause = longer(pause) {
		var answer struct{ Unknown []string }
		err := w.post("/settle", map[string]any{"results": results}, &answer)
		var refused *WorkerError
		if errors.As(err, &refused) {
			return err
		}
		if err == nil {
			if len(answer.Unknown) > 0 {
				w.Logf("postroom: %d events came too late to be settled and may come again", len(answer.Unknown))
			}
			return nil
		}
		if !time.Now().Add(pause).Before(ends) {
			w.Logf("postroom: %d events could not be settled and will come again: %v", len(results), err)
			return nil
		}
		time.Sleep(pause)
	}
	return nil
}

// post returns a *WorkerError when the relay refuses, and another error when it is away. A request runs to its end also when the
// worker is stopped: what the relay has leased must reach it.
func (w Worker) post(path string, body, answer any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	target := strings.TrimRight(w.URL, "/") + "/api/v1/pull/" + url.PathEscape(w.Route) + path
	request, err := http.NewRequest(http.MethodPost, target, bytes.NewReader(text))
	if err != nil {
		return &WorkerError{Detail: err.Error()}
	}
	request.Header.Set("authorization", "Bearer "+w.Token)
	request.Header.Set("content-type", "application/json")
	client := http.Client{Timeout: w.Wait + 10*time.Second}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if status := response.StatusCode; status != http.StatusOK {
		detail, _ := io.ReadAll(io.LimitReader(response.Body, 1000))
		if status == http.StatusRequestTimeout || status == http.StatusTooManyRequests || status >= 500 {
			return fmt.Errorf("%d: %s", status, detail)
		}
		return &WorkerError{Status: status, Detail: string(detail)}
	}
	return json.NewDecoder(response.Body).Decode(answer)
}

func longer(pause time.Duration) time.Duration {
	if pause *= 2; pause > longestPause {
		return longestPause
	}
	return pause
}

func millis(duration time.Duration) string {
	return fmt.Sprintf("%dms", duration.Milliseconds())
}

// detached has the values of a context, and is not done when it is.
type detached struct{ context.Context }

func (detached) Deadline() (time.Time, bool) { return time.Time{}, false }
func (detached) Done() <-chan struct{}       { return nil }
func (detached) Err() error                  { return nil }
