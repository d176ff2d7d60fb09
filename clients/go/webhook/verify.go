// Package webhook verifies webhooks as Standard Webhooks 1.0 signs them.
package webhook

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Tolerance is the largest difference between the time of an attempt and this clock, both ways.
const Tolerance = 5 * time.Minute

// Reasons why a request is not signed with one of the keys.
var (
	ErrMissing   = errors.New("a header of the signature is missing")
	ErrTimestamp = errors.New("webhook-timestamp is not a number of seconds")
	ErrVersion   = errors.New("no signature is of the keys' kind")
	ErrMismatch  = errors.New("no signature fits: another secret, or id, time or body were changed on the way")
	ErrTooOld    = errors.New("signed more than five minutes ago")
	ErrTooNew    = errors.New("signed more than five minutes ahead of this clock")
)

// Verify returns nil if a request was signed with one of the keys, for this body, at most five minutes ago.
//
// Keys are secrets (whsec_…) or public keys (whpk_…); several while keys are rotated. The body is the body as it came, before any
// parsing.
func Verify(keys []string, header http.Header, body []byte) error {
	return verifyAt(keys, header, body, time.Now())
}

func verifyAt(keys []string, header http.Header, body []byte, now time.Time) error {
	id, timestamp, signatures := header.Get("webhook-id"), header.Get("webhook-timestamp"), header.Get("webhook-signature")
	for name, value := range map[string]string{"id": id, "timestamp": timestamp, "signature": signatures} {
		if value == "" {
			return fmt.Errorf("%w: webhook-%s", ErrMissing, name)
		}
	}
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	// One text for one time: `+1` and `01` would be other signatures of the same request.
	if err != nil || strconv.FormatInt(seconds, 10) != timestamp {
		return ErrTimestamp
	}
	signed := append([]byte(id+"."+timestamp+"."), body...)
	tried, fits := false, false
	for _, text := range keys {
		key, err := parse(text)
		if err != nil {
			return err
		}
		for _, signature := range strings.Split(signatures, " ") {
			version, encoded, _ := strings.Cut(signature, ",")
			if version != key.version {
				continue
			}
			tried = true
			given, err := base64.StdEncoding.DecodeString(encoded)
			fits = err == nil && key.fits(signed, given) || fits
		}
	}
	if !tried {
		return ErrVersion
	}
	if !fits {
		return ErrMismatch
	}
	// Only a signed time can be believed.
	limit := int64(Tolerance / time.Second)
	if seconds < now.Unix()-limit {
		return ErrTooOld
	}
	if seconds > now.Unix()+limit {
		return ErrTooNew
	}
	return nil
}

type key struct {
	version string
	fits    func(signed, signature []byte) bool
}

func parse(text string) (key, error) {
	if encoded := strings.TrimPrefix(text, "whsec_"); encoded != text {
		if secret, err := base64.StdEncoding.DecodeString(encoded); err == nil {
			return key{"v1", func(signed, signature []byte) bool {
				made := hmac.New(sha256.New, secret)
				made.Write(signed)
				return hmac.Equal(made.Sum(nil), signature)
			}}, nil
		}
	}
	if encoded := strings.TrimPrefix(text, "whpk_"); encoded != text {
		if public, err := base64.StdEncoding.DecodeString(encoded); err == nil && len(public) == ed25519.PublicKeySize {
			return key{"v1a", func(signed, signature []byte) bool { return ed25519.Verify(public, signed, signature) }}, nil
		}
	}
	return key{}, errors.New("a key is whsec_ or whpk_ and base64: `postroom webhook key` makes one")
}
