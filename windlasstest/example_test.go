package windlasstest_test

import (
	"context"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/windlasstest"
)

// importer is an application's handler: it imports the pages of a site one after
// the other and remembers in a database how far it has come. The database here
// is a ledger.
type importer struct{ database *windlasstest.Ledger }

const pages = 60

func (i importer) Run(ctx context.Context, claim *windlass.Claim) error {
	page := 0
	if _, err := i.database.Read(claim, &page); err != nil {
		return err
	}
	for page < pages {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second): // what importing a page takes
		}
		page++
		if err := i.database.Write(claim, page); err != nil {
			return err
		}
	}
	return nil
}

// TestImporter is the test that an application would write: whatever happens to
// the nodes, no site is imported by two at once, and no progress is lost.
func TestImporter(t *testing.T) {
	windlasstest.Test(t, func(t *testing.T, c *windlasstest.Cluster) {
		database := c.NewLedger()
		config := windlass.Config{Handlers: map[string]windlass.NewHandler{
			"site": func(windlass.Task) windlass.Handler { return importer{database} },
		}}
		a, b := c.Start("a", config), c.Start("b", config)
		c.Submit(windlass.Submission{ID: "example.org", Spec: windlass.Spec{Type: "site"}})
		c.Settle(time.Minute)

		c.Advance(20 * time.Second)
		first, second := a, b
		if c.Runs("example.org")[0].Node == "b" {
			first, second = b, a
		}
		first.Kill()
		c.Settle(time.Minute) // on the other node, once the session has expired
		c.Advance(10 * time.Second)
		second.Freeze()
		c.Advance(time.Minute)
		second.Thaw()
		first.Restart()
		c.Settle(time.Minute)

		c.Advance(2 * time.Minute)
		runs := c.Runs("example.org")
		if entry := database.Entry("example.org"); entry.Writes != pages || len(runs) < 3 {
			t.Errorf("%d pages were written for %d, in the runs %v", entry.Writes, pages, runs)
		}
		detail, err := c.Client().Task(t.Context(), "example.org")
		if err != nil || detail.Status != windlass.StatusCompleted {
			t.Errorf("it is %s (%v)", detail.Status, err)
		}
	})
}
