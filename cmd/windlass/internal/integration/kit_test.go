package integration_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/etcd/embedded"
	"github.com/windlass-go/windlass/windlasstest"
)

// importer is a handler that imports a page of a site every second, and stores its progress
// in db.
func importer(db *windlasstest.Ledger, pages int) windlass.NewHandler {
	return windlass.HandlerFunc(func(ctx context.Context, claim *windlass.Claim) error {
		page := 0
		if _, err := db.Read(claim, &page); err != nil {
			return err
		}
		for page < pages {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(time.Second):
			}
			page++
			if err := db.Write(claim, page); err != nil {
				return err
			}
		}
		return nil
	})
}

// This also shows how to use another broker: it is started, and closed after the cluster, in
// the same bubble.
func TestOpen_TheKitWorksOnARealEtcd(t *testing.T) {
	const site, pages = "example.org", 60
	synctest.Test(t, func(t *testing.T) {
		server, err := embedded.Start(t.Context(), embedded.Config{UnsafeNoFsync: true})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := server.Close(); err != nil {
				t.Error(err)
			}
		}()
		c := windlasstest.New(t, windlasstest.Options{Open: func() broker.Broker { return server.Broker() }})
		defer c.Close()
		db := c.NewLedger()
		cfg := windlass.Config{Handlers: map[string]windlass.NewHandler{"site": importer(db, pages)}}
		for _, name := range []string{"a", "b", "c", "d"} {
			c.Start(name, cfg)
		}
		c.Submit(windlass.Submission{ID: site, Spec: windlass.Spec{Type: "site"}})
		for _, fault := range []func(*windlasstest.Node){
			(*windlasstest.Node).Kill, (*windlasstest.Node).Freeze, (*windlasstest.Node).Partition,
		} {
			c.Settle(time.Minute)
			c.Advance(5 * time.Second)
			fault(c.Holder(site))
		}
		c.WaitFor(3*time.Minute, site, windlass.StatusCompleted)
		if runs := c.Runs(site); len(runs) != 4 || db.Entry(site).Writes != pages {
			t.Errorf("%d pages were imported, in the runs %v", db.Entry(site).Writes, runs)
		}
	})
}
