package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/session"
)

// The checks of the connection to the broker.
const (
	// CheckRoundTrip: the broker's response times.
	CheckRoundTrip = "round trip"
	// CheckPermissions: the rights of the user.
	CheckPermissions = "permissions"
)

const probes = 20

// RoundTrip times reads, and writes whose condition never holds, on which the broker has to
// agree like on any other.
func (d *Doctor) RoundTrip(ctx context.Context) (Check, error) {
	c := Check{Name: CheckRoundTrip, Status: OK}
	reads, err := times(func() error {
		_, err := d.Broker.Get(ctx, d.Space.Layout())
		if errors.Is(err, broker.ErrNotFound) {
			return nil
		}
		return err
	})
	if errors.Is(err, broker.ErrPermission) {
		c.Status, c.Found = Unknown, "this user may not read here"
		return c, nil
	}
	if err != nil {
		return c, fmt.Errorf("read: %w", err)
	}
	writes, err := times(func() error { return d.tryWrite(ctx) })
	worst := reads[len(reads)-1]
	c.Found = "reads " + spread(reads)
	switch {
	case errors.Is(err, broker.ErrNoSpace), errors.Is(err, broker.ErrPermission):
		c.Found += ", writes are refused"
	case err != nil:
		return c, fmt.Errorf("write: %w", err)
	default:
		worst = max(worst, writes[len(writes)-1])
		c.Found += ", writes " + spread(writes)
	}
	try := session.Derive(d.ttl()).Try
	c.Found += fmt.Sprintf("; with a session TTL of %v a renewal may take %v", d.ttl(), try.Round(time.Millisecond))
	if worst >= try/4 {
		c.Status, c.Do = Warning, "look at the broker's disks and the network, or use a longer session TTL"
	}
	if worst >= try {
		c.Status, c.Do = Problem, c.Do+": sessions will be lost"
	}
	return c, nil
}

func times(call func() error) ([]time.Duration, error) {
	took := make([]time.Duration, 0, probes)
	for range probes {
		began := time.Now()
		if err := call(); err != nil {
			return nil, err
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	return took, nil
}

func spread(took []time.Duration) string {
	round := func(d time.Duration) time.Duration { return d.Round(10 * time.Microsecond) }
	return fmt.Sprintf("p50 %v, max %v", round(took[len(took)/2]), round(took[len(took)-1]))
}

// tryWrite commits a transaction whose conditions exclude each other. A broker checks the
// rights to all of its keys, but never applies it.
func (d *Doctor) tryWrite(ctx context.Context) error {
	key := d.Space.Layout()
	_, err := broker.CommitOne(ctx, d.Broker, broker.Txn{
		If:   []broker.Cond{broker.Exists(key), broker.Absent(key)},
		Then: []broker.Op{broker.Put(key, nil), broker.DeleteTree(d.Space.Tasks())},
	})
	return err
}

// Permissions checks the rights of this user: to read and write below the namespace, and to
// open a session.
func (d *Doctor) Permissions(ctx context.Context) (Check, error) {
	c := Check{Name: CheckPermissions, Status: OK, Found: fmt.Sprintf("may read and write below %s, and open sessions", d.Space.All())}
	var refused []string
	full := false
	for _, right := range []struct {
		what string
		use  func(context.Context) error
	}{{"read below " + d.Space.All(), d.tryRead}, {"write below " + d.Space.All(), d.tryWrite}, {"open sessions", d.tryGrant}} {
		switch err := right.use(ctx); {
		case errors.Is(err, broker.ErrPermission):
			refused = append(refused, "may not "+right.what)
		case errors.Is(err, broker.ErrNoSpace):
			full = true
		case err != nil:
			return c, fmt.Errorf("%s: %w", right.what, err)
		}
	}
	switch {
	case len(refused) > 0:
		c.Status, c.Found = Problem, fmt.Sprintf("%d right(s) missing", len(refused))
		c.Do = "grant the role that docs/operate/security.md shows, for the prefix " + d.Space.All()
		c.Details = refused
	case full:
		c.Status, c.Found = Unknown, "the broker is full and refuses writes to everyone"
	}
	return c, nil
}

func (d *Doctor) tryRead(ctx context.Context) error {
	for _, err := range d.Broker.List(ctx, d.Space.All()) {
		return err // the first page is enough
	}
	return nil
}

func (d *Doctor) tryGrant(ctx context.Context) error {
	s, err := d.Broker.Grant(ctx, "", d.ttl())
	if err != nil {
		return err
	}
	return d.Broker.Revoke(ctx, s.ID)
}
