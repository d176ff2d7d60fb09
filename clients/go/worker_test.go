package postroom_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"sort"
	"strings"
	"testing"
	"time"

	postroom "github.com/postroom/postroom/clients/go"
)

func TestEventsAreSettledAsTheHandlerEnds(t *testing.T) {
	db := open(t)
	tx := begin(t, db)
	for _, name := range []string{"ok", "retried", "bad"} {
		must(outbox.Append(ctx, tx, postroom.Event{Type: "order.noted", Key: "key-" + name, Payload: name, ID: "order-" + name}))
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	var seen []string
	handle := func(_ context.Context, event postroom.Incoming) error {
		seen = append(seen, fmt.Sprint(event.ID, " ", event.Key, " ", string(event.Data), " ", event.Attempt))
		if len(seen) == 4 {
			stop()
		}
		switch {
		case event.ID == "order-bad":
			return &postroom.Failure{Err: errors.New("no such customer"), Permanent: true}
		case event.ID == "order-retried" && event.Attempt == 1:
			return &postroom.Failure{Err: errors.New("mailbox is full"), RetryAfter: 10 * time.Millisecond}
		}
		return nil
	}
	worker := postroom.Worker{URL: os.Getenv("WORKER_URL"), Route: "mailer", Token: os.Getenv("WORKER_TOKEN"), Handle: handle}
	if err := worker.Run(running); err != nil {
		t.Fatal(err)
	}
	sort.Strings(seen)
	expected := []string{
		`order-bad key-bad "bad" 1`, `order-ok key-ok "ok" 1`, `order-retried key-retried "retried" 1`, `order-retried key-retried "retried" 2`,
	}
	if !reflect.DeepEqual(seen, expected) {
		t.Fatal(seen)
	}
}

func TestAWrongTokenAndAnUnknownRouteEndTheWorker(t *testing.T) {
	token := os.Getenv("WORKER_TOKEN")
	for _, wrong := range []struct {
		route, token string
		status       int
	}{{"mailer", "wrong", 401}, {"nobody", token, 404}} {
		err := postroom.Worker{URL: os.Getenv("WORKER_URL"), Route: wrong.route, Token: wrong.token, Wait: time.Millisecond}.Run(ctx)
		var refused *postroom.WorkerError
		if !errors.As(err, &refused) || refused.Status != wrong.status {
			t.Fatal(err)
		}
	}
}

type answer struct {
	status int
	body   string
}

// leased answers with these events, which have fields that this version does not know.
func leased(names ...string) answer {
	var events []string
	for _, name := range names {
		events = append(events, fmt.Sprintf(`{"lease": "lease %[1]s", "id": "%[1]s", "type": "t", "attempt": 1, "route": "r", "envelope": {},
			"processed": [], "other": "new"}`, name))
	}
	return answer{200, "[" + strings.Join(events, ",") + "]"}
}

// against runs a worker against a stand-in that does what a relay rarely does; it returns the requests and what was logged.
func against(t *testing.T, answers []answer, lease time.Duration, handle func(stop func(), event postroom.Incoming) error) ([]string, string) {
	t.Helper()
	var requests []string
	relay := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := must(io.ReadAll(r.Body))
		requests = append(requests, strings.TrimPrefix(r.URL.Path, "/api/v1/pull/r")+" "+string(body))
		next := answer{404, "{}"} // a worker that asks for more than was meant fails, rather than for ever
		if len(answers) > 0 {
			next, answers = answers[0], answers[1:]
		}
		w.WriteHeader(next.status)
		fmt.Fprint(w, next.body)
	}))
	defer relay.Close()
	running, stop := context.WithCancel(ctx)
	defer stop()
	var logged strings.Builder
	worker := postroom.Worker{
		URL: relay.URL + "/", Route: "r", Token: "t", Lease: lease,
		Handle: func(ctx context.Context, event postroom.Incoming) error {
			err := handle(stop, event)
			if lease == 0 && ctx.Err() != nil {
				t.Error("a stopped worker cancels what is in hand")
			}
			return err
		},
		Logf: func(format string, args ...any) { fmt.Fprintf(&logged, format+"\n", args...) },
	}
	if err := worker.Run(running); err != nil {
		t.Fatal(err)
	}
	return requests, logged.String()
}

func TestAWorkerWaitsForARelayThatIsAwayAndStopsWhenWhatItHasIsSettled(t *testing.T) {
	answers := []answer{{503, ""}, leased("a", "b"), {502, ""}, {200, `{"settled": 2, "unknown": ["lease b"]}`}}
	var handled []string
	requests, _ := against(t, answers, 0, func(stop func(), event postroom.Incoming) error {
		stop() // with `a` in hand and `b` leased
		handled = append(handled, event.ID)
		return nil
	})
	if !reflect.DeepEqual(handled, []string{"a", "b"}) {
		t.Fatal(handled)
	}
	asked := ` {"lease":"30000ms","limit":20,"wait":"5000ms"}`
	results := `/settle {"results":[{"lease":"lease a","ok":true},{"lease":"lease b","ok":true}]}`
	if !reflect.DeepEqual(requests, []string{asked, asked, results, results}) {
		t.Fatal(requests)
	}
}

func TestAnEventWhoseLeaseHasEndedIsLeftToTheNextWorker(t *testing.T) {
	answers := []answer{leased("a", "b"), {200, `{"settled": 0, "unknown": ["lease a"]}`}}
	var handled []string
	_, logged := against(t, answers, 2*time.Second, func(stop func(), event postroom.Incoming) error {
		stop()
		handled = append(handled, event.ID)
		time.Sleep(2100 * time.Millisecond) // longer than the lease, which leaves a slow machine time to ask for it
		return nil
	})
	if !reflect.DeepEqual(handled, []string{"a"}) {
		t.Fatal(handled)
	}
	if !strings.Contains(logged, "before their turn") || !strings.Contains(logged, "too late") {
		t.Fatal(logged)
	}
}

func TestAnErrorAndAPanicOfTheHandlerAreRetriedByTheRoute(t *testing.T) {
	answers := []answer{leased("a", "b"), {200, `{"settled": 2, "unknown": []}`}}
	requests, _ := against(t, answers, 0, func(stop func(), event postroom.Incoming) error {
		stop()
		if event.ID == "b" {
			panic("no email")
		}
		return errors.New("no address")
	})
	expected := `/settle {"results":[{"lease":"lease a","error":"no address"},{"lease":"lease b","error":"panic: no email"}]}`
	if requests[1] != expected {
		t.Fatal(requests[1])
	}
}
