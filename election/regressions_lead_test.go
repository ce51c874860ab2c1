package election

import (
	"context"
	"errors"
	"testing"
	"time"
)

// stolon#659 and the like: who has no function to run any more does not keep others from leading.
func TestLead_L06_WhoWaitsInTheQueueAndGivesUpDoesNotLeadLater(t *testing.T) {
	inCluster(t, func(c *cluster) {
		_, _, first, second := c.pair()
		c.lead(first)
		ctx, cancel := context.WithTimeout(c.Context(), time.Second)
		defer cancel()
		if err := second.Lead(ctx, func(context.Context, Term) error { return nil }); !errors.Is(err, context.DeadlineExceeded) {
			c.Errorf("who waits in vain: %v", err)
		}
		c.sleep(time.Second)
		c.wantLine("e", "foo")
		c.check(first.Resign(c.Context()))
		c.sleep(time.Second)
		c.wantLeader(first, true)
		c.wantLeader(second, false)
	})
}

// The broker is away as the function returns: nobody is led once it is back.
func TestLead_L06_AFunctionThatReturnsWithoutABrokerLeavesAsSoonAsItIsBack(t *testing.T) {
	inCluster(t, func(c *cluster) {
		foo, _, first, second := c.pair()
		c.lead(second)
		enough := errors.New("enough")
		began := time.Now()
		c.wantErr("Lead", first.Lead(c.Context(), func(context.Context, Term) error {
			foo.faults.Cut()
			return enough
		}), enough)
		if took := time.Since(began); took > foo.timing.Try+c.slack() {
			c.Errorf("it took %v to return", took)
		}
		c.sleep(time.Second)
		foo.faults.Heal()
		c.sleep(3 * time.Second)
		c.wantLeader(second, true)
		c.wantLine("e", "bar")
	})
}
