package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"unicode/utf8"

	"golang.org/x/sync/semaphore"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/internal/stored"
)

const (
	// smallBodyBytes is up to how long a body may be of which a caller may send many at once.
	smallBodyBytes = 64 << 10
	// bodyValuesMax is how many values of JSON a body may have: decoded, one takes up to some
	// two hundred bytes, however short it is.
	bodyValuesMax = 250_000
	// bodyDepthMax is how deep they may be nested: properties as deep as they may be, in a
	// patch of many tasks.
	bodyDepthMax = windlass.PropsDepthMax + 10
	// bodyMembersMax is how many members an object of labels or tags may have, or a patch. Each mistake in
	// one costs a hundred times its bytes.
	bodyMembersMax = 256
	// bodyTextMax is how long a time or a duration may be.
	bodyTextMax = 1 << 10
)

// readBody reads the body of a request, and checks what it would take to decode it before that is done.
// What is given back once the request is answered, or for a small body once it is decoded, is in t.
func (s *Server) readBody(ctx context.Context, r *http.Request, e *endpoint, t *requestState) *Problem {
	limits := s.config.Limits
	var content bytes.Buffer
	err := readMost(&content, r, smallBodyBytes)
	large := content.Len() > smallBodyBytes
	if err == nil && large {
		release, p := s.budget.takeLarge(t.caller)
		if p != nil {
			return p
		}
		t.answered = append(t.answered, release)
		err = readMost(&content, r, limits.BodyBytesMax)
	}
	size := int64(content.Len())
	var timeout net.Error
	switch {
	case errors.As(err, &timeout) && timeout.Timeout():
		return problem(http.StatusRequestTimeout, "slow_body", "the body did not arrive within %v", limits.BodyTimeout)
	case err != nil:
		return problem(http.StatusBadRequest, "malformed", "the body cannot be read: %v", err)
	case size > limits.BodyBytesMax:
		return tooLarge(size, limits.BodyBytesMax)
	}
	share := s.budget.small
	if large {
		share = s.budget.large
	}
	release, p := takeBody(ctx, share, size)
	if p != nil {
		return p
	}
	t.answered = append(t.answered, release)
	if !large {
		t.decoded = release
	}
	t.content = content.Bytes()
	return s.checkContent(t.content, e)
}

// readMost reads until there is one byte more than a number of bytes, or no more.
func readMost(content *bytes.Buffer, r *http.Request, most int64) error {
	n := most + 1 - int64(content.Len())
	if r.ContentLength > 0 {
		content.Grow(int(min(r.ContentLength-int64(content.Len()), n)) + bytes.MinRead)
	}
	_, err := io.CopyN(content, r.Body, n)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return err
}

// tooLarge is the problem of a body that is longer than it may be.
func tooLarge(bytes, most int64) *Problem {
	return problem(http.StatusRequestEntityTooLarge, "too_large", "the body has %d bytes or more, and may have %d", bytes, most).
		about("body", fmt.Sprintf("%d bytes", bytes), fmt.Sprintf("must have at most %d bytes", most))
}

// checkContent refuses what the decoder would pass over or replace, and what would take more memory
// than its bytes suggest.
func (s *Server) checkContent(content []byte, e *endpoint) *Problem {
	if !utf8.Valid(content) {
		return problem(http.StatusBadRequest, "malformed", "body: must be valid UTF-8").about("body", "", "must be valid UTF-8")
	}
	items := max(BatchMax, s.config.Limits.ListMax) // of a batch, and of a command to tasks by their IDs
	fault := stored.CheckType(content, e.body, stored.Bounds{
		Values: bodyValuesMax, Items: items, Members: bodyMembersMax, Depth: bodyDepthMax, Text: bodyTextMax, Float64: true, Surrogates: true,
	})
	switch {
	case fault == nil || !json.Valid(content):
		return nil // the decoder reads nothing of what is not valid, and says where that is
	case fault.What == stored.Twice:
		p := misfit("body", fault)
		p.Status, p.Code, p.Title = http.StatusBadRequest, "malformed", http.StatusText(http.StatusBadRequest)
		return p
	}
	return misfit("body", fault)
}

// within names what a path leads to in a field.
func within(field, path string) string {
	if path != "" && !strings.HasPrefix(path, "[") {
		path = "." + path
	}
	return field + path
}

// takeLarge lets one large body of a caller in at a time.
func (b *budget) takeLarge(c Caller) (release func(), p *Problem) {
	b.mu.Lock()
	defer b.mu.Unlock()
	u := b.callers[c.Name]
	if u.large {
		p = problem(http.StatusTooManyRequests, "rate", "another large body of %q is under way", c.Name).
			about("body", "", fmt.Sprintf("must be one at a time above %d bytes", smallBodyBytes))
		p.retryAfter = 1
		return nil, p
	}
	u.large = true
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		u.large = false
	}, nil
}

// takeBody waits until so many bytes more of a share may be decoded, and returns a function that
// gives them back.
func takeBody(ctx context.Context, share *semaphore.Weighted, n int64) (release func(), p *Problem) {
	if !share.TryAcquire(n) && share.Acquire(ctx, n) != nil {
		p = problem(http.StatusServiceUnavailable, "busy", "other large requests are under way")
		p.retryAfter = 1
		return nil, p
	}
	return sync.OnceFunc(func() { share.Release(n) }), nil
}
