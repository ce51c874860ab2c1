package windlasstest_test

import (
	"context"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/windlasstest"
)

// The application: a handler that imports the pages of a site one after the
// other and remembers in a database how far it has come.

const (
	site  = "example.org"
	pages = 60
)

// database is where it remembers. Each call hands over the claim's token, and
// one with an old token is refused. In tests it is a ledger.
type database interface {
	Read(claim *windlass.Claim, page any) (found bool, err error)
	Write(claim *windlass.Claim, page any) error
}

func importer(db database) windlass.NewHandler {
	return windlass.HandlerFunc(func(ctx context.Context, claim *windlass.Claim) error {
		page := 0
		if _, err := db.Read(claim, &page); err != nil {
			return err
		}
		for page < pages {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(time.Second): // what importing a page takes
			}
			page++
			if err := db.Write(claim, page); err != nil {
				return err
			}
		}
		return nil
	})
}

// A test: one node is killed while it imports, and the other one goes on. That no two
// nodes import at once is checked without asking.
func TestImporter(t *testing.T) {
	windlasstest.Test(t, func(t *testing.T, c *windlasstest.Cluster) {
		db := c.NewLedger() // stands for the database
		config := windlass.Config{Handlers: map[string]windlass.NewHandler{"site": importer(db)}}
		c.Start("a", config)
		c.Start("b", config)
		c.Submit(windlass.Submission{ID: "example.org", Spec: windlass.Spec{Type: "site"}})
		c.Settle(time.Minute) // until every task runs, on one node

		c.Advance(10 * time.Second)
		c.Holder("example.org").Kill() // the node that runs it
		c.Settle(time.Minute)          // on the other, once the session has expired

		c.WaitFor(2*time.Minute, "example.org", windlass.StatusCompleted)
		if writes := db.Entry("example.org").Writes; writes != pages {
			t.Errorf("%d pages were imported, of %d", writes, pages)
		}
	})
}

// Another one: whatever happens to the nodes, the site is imported, no page twice
// and none left out.
func TestImporter_UnderEveryFault(t *testing.T) {
	windlasstest.Test(t, func(t *testing.T, c *windlasstest.Cluster) {
		db := c.NewLedger()
		config := windlass.Config{Handlers: map[string]windlass.NewHandler{"site": importer(db)}}
		c.Start("a", config)
		c.Start("b", config)
		c.Submit(windlass.Submission{ID: site, Spec: windlass.Spec{Type: "site"}})

		// Whoever runs it is struck after 10 s, and comes back when another has it.
		strike := func(begin, end func(n *windlasstest.Node)) {
			c.Settle(time.Minute)
			c.Advance(10 * time.Second)
			n := c.Holder(site)
			begin(n)
			c.Settle(time.Minute)
			end(n)
		}
		restart := func(n *windlasstest.Node) { n.Restart() }
		strike((*windlasstest.Node).Kill, restart)
		strike((*windlasstest.Node).Freeze, (*windlasstest.Node).Thaw)
		strike((*windlasstest.Node).Partition, (*windlasstest.Node).Heal)
		strike(func(n *windlasstest.Node) {
			if err := n.Drain(t.Context()); err != nil {
				t.Error(err)
			}
		}, func(n *windlasstest.Node) {
			if err := n.Stop(); err != nil {
				t.Error(err)
			}
		})

		c.WaitFor(2*time.Minute, site, windlass.StatusCompleted)
		if writes := db.Entry(site).Writes; writes != pages {
			t.Errorf("%d pages were imported, of %d", writes, pages)
		}
		if runs := c.Runs(site); len(runs) < 5 {
			t.Errorf("the faults did not strike: %v", runs)
		}
	})
}
