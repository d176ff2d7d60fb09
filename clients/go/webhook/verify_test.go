package webhook

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"testing"
	"time"
)

func TestASignatureIsJudgedAsTheRelayJudgesIt(t *testing.T) {
	text, err := os.ReadFile("../../webhook-vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors []struct {
		Name, ID, Timestamp, Signature, Body, Result string
		Keys                                         []string
		Now                                          int64
	}
	if err := json.Unmarshal(text, &vectors); err != nil {
		t.Fatal(err)
	}
	reasons := map[string]error{
		"ok": nil, "missing": ErrMissing, "timestamp": ErrTimestamp, "version": ErrVersion, "mismatch": ErrMismatch,
		"too_old": ErrTooOld, "too_new": ErrTooNew,
	}
	for _, vector := range vectors {
		header := http.Header{}
		header.Set("webhook-id", vector.ID)
		header.Set("webhook-timestamp", vector.Timestamp)
		header.Set("webhook-signature", vector.Signature)
		err := verifyAt(vector.Keys, header, []byte(vector.Body), time.Unix(vector.Now, 0))
		if expected, known := reasons[vector.Result]; !known || !errors.Is(err, expected) {
			t.Errorf("%s: %v", vector.Name, err)
		}
	}
}

func TestAKeyThatIsNoneIsRefused(t *testing.T) {
	header := http.Header{"Webhook-Id": {"1"}, "Webhook-Timestamp": {"1"}, "Webhook-Signature": {"v1,x"}}
	for _, key := range []string{"hunter2", "whpk_AAAA", "whsec_%"} {
		if err := Verify([]string{key}, header, nil); err == nil || errors.Is(err, ErrMismatch) {
			t.Fatal(key, err)
		}
	}
}
