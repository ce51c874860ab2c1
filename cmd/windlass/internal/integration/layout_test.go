package integration_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/operate"
	"github.com/windlass-go/windlass/windlasstest"
)

const layoutKey = "/test/layout"

func TestLayout_TheFirstNodeThatJoinsWritesItAndNoOtherDoes(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		if v, err := operate.New(c.client).Layout(t.Context()); v != 0 || err != nil {
			t.Errorf("at first: %d, %v", v, err)
		}
		nodes := []*windlasstest.Node{c.join("a"), c.join("b"), c.join("d")}
		c.awaitNodes(3)
		kv := c.get(layoutKey)
		if string(kv.Value) != `{"version":1}` || kv.Session != 0 || kv.Created != kv.Modified {
			t.Errorf("%s, %+v", kv.Value, kv)
		}
		if v, err := operate.New(c.client).Layout(t.Context()); v != windlass.LayoutVersion || err != nil {
			t.Errorf("%d, %v", v, err)
		}
		for _, m := range nodes {
			c.must(m.Stop())
		}
		if now := c.get(layoutKey); now.Modified != kv.Modified {
			t.Errorf("it changed: %+v", now)
		}
	})
}

// The replies to the first attempts to register are lost. In an empty namespace the first
// attempt also writes the layout; later ones find it.
func TestLayout_IsWrittenOnceAlthoughRepliesAreLost(t *testing.T) {
	for _, plan := range []string{
		`lose-reply 1s on commit below "/test/nodes/" call 1`, `lose-reply 1s on commit below "/test/nodes/" call 2`,
		`lose-request 1s on commit below "/test/nodes/" call 1`, `lose-reply 1s on commit below "/test/nodes/" chance 0.5`,
	} {
		inCluster(t, func(t *testing.T, c *cluster) {
			for i, name := range []string{"a", "b", "d"} {
				c.join(name, withFaults(plan))
				c.WaitUntil(time.Minute, "joined "+name+" under "+plan, func() bool { return len(c.nodes()) == i+1 })
			}
			if kv := c.get(layoutKey); kv.Created != kv.Modified {
				t.Errorf("%s: %+v", plan, kv)
			}
		})
	}
}

func TestLayout_OneFromTheFutureIsNotJoined(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		c.put(layoutKey, `{"version":2,"note":"unknown fields do not matter"}`)
		a := c.join("a")
		c.WaitUntil(time.Second, "it gives up", func() bool { return a.Over() != nil })
		err := a.Stop()
		var layout *windlass.LayoutError
		if !errors.Is(err, windlass.ErrLayout) || !errors.As(err, &layout) || layout.Found != 2 || layout.Known != 1 || layout.Namespace != "/test" {
			t.Fatal(err)
		}
		for _, word := range []string{"/test", "version 2", "version 1"} {
			if !strings.Contains(layout.Error(), word) {
				t.Errorf("%q does not name %q", layout, word)
			}
		}
		if len(c.nodes()) > 0 {
			t.Errorf("%v", c.nodes())
		}
	})
}

func TestLayout_OneFromTheFutureMakesANodeThatHadJoinedWait(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		var waiting []error
		a := c.join("a", func(config *windlass.Config) {
			config.Events.Waiting = func(cause error) {
				c.mu.Lock()
				defer c.mu.Unlock()
				waiting = append(waiting, cause)
			}
		})
		c.awaitNodes(1)
		c.put(layoutKey, `{"version":7}`)
		// Losing the registration ends the incarnation.
		c.delete("/test/nodes/a/info")
		c.WaitUntil(time.Minute, "it waits", c.locked(func() bool {
			return len(waiting) > 2 && errors.Is(waiting[len(waiting)-1], windlass.ErrLayout)
		}))
		if len(c.nodes()) > 0 {
			t.Errorf("%v", c.nodes())
		}
		c.put(layoutKey, `{"version":1}`)
		c.WaitUntil(time.Minute, "joined again", func() bool { return len(c.nodes()) == 1 })
		c.must(a.Stop())
	})
}

func TestLayout_AnUnreadableOneIsReportedAndStopsNobody(t *testing.T) {
	for _, value := range []string{"", "garbage", `{"version":"1"}`, `{"version":0}`, `{}`, `[1]`} {
		inCluster(t, func(t *testing.T, c *cluster) {
			c.put(layoutKey, value)
			before := c.get(layoutKey)
			var corrupt []string
			c.join("a", func(config *windlass.Config) {
				config.Events.Corrupt = func(key string, _ error) {
					c.mu.Lock()
					defer c.mu.Unlock()
					corrupt = append(corrupt, key)
				}
			})
			c.awaitNodes(1)
			c.mu.Lock()
			defer c.mu.Unlock()
			if len(corrupt) != 1 || corrupt[0] != layoutKey {
				t.Errorf("%q: reported %q", value, corrupt)
			}
			if after := c.get(layoutKey); after.Modified != before.Modified {
				t.Errorf("%q: it was replaced by %q", value, after.Value)
			}
			if _, err := operate.New(c.client).Layout(t.Context()); err == nil {
				t.Errorf("%q was read", value)
			}
			c.submit(1, windlass.Spec{})
		})
	}
}

func TestLayout_NothingIsWrittenIntoOneFromTheFuture(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		c.put(layoutKey, `{"version":3}`)
		revision := c.get(layoutKey).Modified
		if v, err := operate.New(c.client).Layout(t.Context()); v != 3 || !errors.Is(err, windlass.ErrLayout) {
			t.Errorf("%d, %v", v, err)
		}
		for what, err := range map[string]error{
			"submit": c.client.Submit(t.Context(), windlass.Submission{ID: "x"}),
			"delete": c.client.Delete(t.Context(), "x"),
			"send":   operate.New(c.client).Send(t.Context(), "n", operate.Command{Command: operate.Freeze}),
		} {
			if !errors.Is(err, windlass.ErrLayout) {
				t.Errorf("%s: %v", what, err)
			}
		}
		if _, now, err := broker.Collect(t.Context(), c.store, "/test/"); err != nil || now != revision {
			t.Errorf("something was written: revision %d, and it was %d (%v)", now, revision, err)
		}
	})
}

// counted counts the reads of one key.
type counted struct {
	broker.Broker
	gets int
}

func (b *counted) Get(ctx context.Context, key string) (broker.KV, error) {
	if key == layoutKey {
		b.gets++
	}
	return b.Broker.Get(ctx, key)
}

func TestLayout_AClientThatWritesAllTheTimeReadsItRarely(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		store := &counted{Broker: c.store}
		client := c.clientOn(store)
		for _, id := range []string{"a", "b", "d"} {
			c.must(client.Submit(t.Context(), windlass.Submission{ID: id}))
		}
		if store.gets != 1 {
			t.Errorf("%d reads for three batches", store.gets)
		}
		c.put(layoutKey, `{"version":2}`)
		c.Advance(time.Minute)
		if err := client.Submit(t.Context(), windlass.Submission{ID: "e"}); !errors.Is(err, windlass.ErrLayout) {
			t.Errorf("%v", err)
		}
	})
}
