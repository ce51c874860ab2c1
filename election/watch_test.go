package election

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/faulty"
	"github.com/windlass-go/windlass/internal/invalid"
)

func TestWatch_TellsEveryLineAsItChangesAndGoesOnAfterAnOutage(t *testing.T) {
	inCluster(t, func(c *cluster) {
		foo, bar := c.member("foo"), c.member("bar")
		first, second := foo.election("e"), bar.election("e")
		c.check(first.Start())
		c.sleep(time.Second)
		ctx, cancel := context.WithCancel(c.Context())
		defer cancel()
		changes := make(chan string, 100)
		outage := faulty.Wrap(c.connect(), nil)
		done := make(chan struct{})
		go func() {
			defer close(done)
			last := int64(0)
			for change, err := range Watch(ctx, outage, "/test") {
				if err != nil {
					changes <- "trouble"
					continue
				}
				text := change.Election.Name + ":"
				for _, candidate := range change.Election.Candidates {
					text += " " + candidate.Name
				}
				if change.Revision < last || change.Gone != (len(change.Election.Candidates) == 0) {
					text += fmt.Sprint(" at ", change.Revision, " after ", last, ", gone ", change.Gone)
				}
				last = change.Revision
				changes <- text
			}
		}()
		want := func(text string) {
			c.Helper()
			c.settle()
			select {
			case got := <-changes:
				if got != text {
					c.Errorf("got %q, want %q", got, text)
				}
			default:
				c.Errorf("got nothing, want %q", text)
			}
		}
		want("e: foo")
		c.check(second.Start())
		c.sleep(time.Second)
		want("e: foo bar")
		c.check(first.Stop(c.Context()))
		c.sleep(time.Second)
		want("e: bar")
		outage.Cut()
		c.sleep(30 * time.Second)
		c.check(second.Stop(c.Context()))
		c.sleep(time.Second)
		want("trouble")
		outage.Heal()
		c.sleep(2 * time.Minute)
		for len(changes) > 1 {
			if got := <-changes; got != "trouble" {
				c.Errorf("got %q in an outage", got)
			}
		}
		want("e:")
		cancel()
		<-done
		c.check(outage.Close())
	})
}

func TestWatch_ANamespaceThatIsNoneIsABadInput(t *testing.T) {
	inCluster(t, func(c *cluster) {
		for _, err := range Watch(c.Context(), c.broker, "//") {
			if _, ok := err.(*invalid.Input); !ok {
				c.Errorf("it is %v", err)
			}
		}
	})
}

// batched is a broker whose watch has all that happened in one batch.
type batched struct {
	broker.Broker
	events []broker.Event
}

// List implements broker.Broker.
func (b batched) List(context.Context, string) iter.Seq2[broker.Page, error] {
	return func(yield func(broker.Page, error) bool) { yield(broker.Page{Revision: 1}, nil) }
}

// Watch implements broker.Broker.
func (b batched) Watch(ctx context.Context, _ string, _ broker.Revision) iter.Seq2[broker.Batch, error] {
	return func(yield func(broker.Batch, error) bool) {
		if yield(broker.Batch{Events: b.events, Revision: 5}, nil) {
			<-ctx.Done()
		}
	}
}

func TestObserve_YieldsEachLeaderOfABatchAndWatchTheLineAfterIt(t *testing.T) {
	put := func(name string, at broker.Revision) broker.Event {
		return broker.Event{KV: broker.KV{Key: "/test/elections/e/" + name, Created: at, Modified: at}}
	}
	gone := func(name string, at broker.Revision) broker.Event {
		return broker.Event{Deleted: true, KV: broker.KV{Key: "/test/elections/e/" + name, Modified: at}}
	}
	b := batched{events: []broker.Event{put("foo", 2), put("bar", 3), gone("foo", 4), put("foo", 5)}}
	var leaders []string
	for l, err := range Observe(t.Context(), b, "/test", "e") {
		if err != nil {
			t.Fatal(err)
		}
		if leaders = append(leaders, l.Leader); l.Leader == "bar" {
			break
		}
	}
	if !slices.Equal(leaders, []string{"", "foo", "bar"}) {
		t.Errorf("the leaders were %q", leaders)
	}
	for change, err := range Watch(t.Context(), b, "/test") {
		if err != nil || change.Revision != 5 || len(change.Election.Candidates) != 2 || change.Election.Candidates[0].Name != "bar" {
			t.Errorf("the queue was %+v, %v", change, err)
		}
		break
	}
}
