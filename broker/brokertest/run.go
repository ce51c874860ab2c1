package brokertest

import (
	"cmp"
	"context"
	"slices"
	"testing"
	"time"

	"github.com/windlass-go/windlass/broker"
)

// Options describe the store. The zero value works.
type Options struct {
	// MinTTL is the TTL of the sessions. The rules about expiry take a multiple of it.
	// Zero means one second.
	MinTTL time.Duration
	// Compact drops the history of the store that was opened last, up to and
	// including the revision. Nil skips the rules about compaction. With a shared store
	// and Parallel, other rules may notice.
	Compact func(context.Context, broker.Revision) error
	// Reopen opens another connection to the store behind a broker that open
	// returned. Nil skips the rules that need two.
	Reopen func(*testing.T, broker.Broker) broker.Broker
	// Around runs the body of a rule, open included. Nil calls it; synctest.Test
	// runs it in virtual time.
	Around func(*testing.T, func(*testing.T))
	// Parallel runs the rules at the same time, except those that compact.
	Parallel bool
}

// Rule is one requirement for brokers.
type Rule struct {
	// Number names the rule in documents, such as B07. It is never reused.
	Number string
	// Name is the name of its subtest, in a few words with underscores.
	Name string
	// Sentence is the rule.
	Sentence string

	test    func(*trial)
	compact bool // needs Options.Compact
	reopen  bool // needs Options.Reopen
}

// Rules returns all rules in order of their numbers.
func Rules() []Rule {
	return slices.Concat(readRules, commitRules, batchRules, limitRules, fenceRules, watchRules,
		historyRules, sessionRules, endRules, keyRules, longRules)
}

// Run checks all rules. It calls open for each, which must return a new connection, to the
// same store or to another; Run closes it.
func Run(t *testing.T, open func(t *testing.T) broker.Broker, opts Options) {
	t.Helper()
	opts.MinTTL = cmp.Or(opts.MinTTL, time.Second)
	if opts.Around == nil {
		opts.Around = func(t *testing.T, body func(*testing.T)) { body(t) }
	}
	for _, r := range Rules() {
		t.Run(r.Number+"_"+r.Name, func(t *testing.T) {
			if r.compact && opts.Compact == nil {
				t.Skip("the options do not say how to compact the store")
			}
			if r.reopen && opts.Reopen == nil {
				t.Skip("the options do not say how to open a second connection")
			}
			if opts.Parallel && !r.compact {
				t.Parallel()
			}
			t.Cleanup(func() {
				if t.Failed() {
					t.Logf("%s: %s", r.Number, r.Sentence)
				}
			})
			opts.Around(t, func(t *testing.T) {
				r.test(newTrial(t, open(t), opts))
			})
		})
	}
}
