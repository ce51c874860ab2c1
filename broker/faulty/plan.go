package faulty

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
)

// RulesMax limits the rules of a plan.
const RulesMax = 1000

// Plan defines faults. The zero value has none.
type Plan struct {
	// Seed decides the chances.
	Seed uint64
	// Rules are evaluated in order; at most RulesMax.
	Rules []Rule
}

// Rule is a fault and the calls that it affects: those that match all of its fields.
type Rule struct {
	// Fault is the fault.
	Fault Fault
	// Duration is the duration of the fault, if it takes one; zero means at once.
	Duration time.Duration
	// Ops are the operations affected. Zero means all that the fault can affect.
	Ops Ops
	// Below is a prefix of the key. Empty means any key, and calls without one. The key
	// of a listing or a watch is its prefix; a batch also has those of its events. For
	// a commit, only the transactions that name such a key are lost, refused or late.
	Below string
	// Call is the number of the affected call among those that match the fields above,
	// counted from one. Zero means every call.
	Call int
	// Chance is the fraction of these calls that is affected, above 0 and at most 1.
	// Zero means all.
	Chance float64
}

// String returns the plan, one rule per line, in the form that Parse accepts.
func (p *Plan) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d\n", p.Seed)
	for _, r := range p.Rules {
		b.WriteString(r.String())
		b.WriteByte('\n')
	}
	return b.String()
}

// String returns the rule as a line of a plan.
func (r Rule) String() string {
	s := r.Fault.String()
	if faults[r.Fault].duration {
		s += " " + r.Duration.String()
	}
	if r.Ops != 0 {
		s += " on " + r.Ops.String()
	}
	if r.Below != "" {
		s += " below " + strconv.Quote(r.Below)
	}
	if r.Call != 0 {
		s += " call " + strconv.Itoa(r.Call)
	}
	if r.Chance != 0 {
		s += " chance " + strconv.FormatFloat(r.Chance, 'g', -1, 64)
	}
	return s
}

func (p *Plan) validate() error {
	if n := len(p.Rules); n > RulesMax {
		return fmt.Errorf("%d rules; the limit is %d", n, RulesMax)
	}
	for i, r := range p.Rules {
		if err := r.validate(); err != nil {
			return fmt.Errorf("rule %d: %w", i+1, err)
		}
	}
	return nil
}

func (r Rule) validate() error {
	t, known := faults[r.Fault]
	switch {
	case !known:
		return fmt.Errorf("%v is unknown", r.Fault)
	case r.Duration < 0 || r.Duration > 0 && !t.duration:
		return fmt.Errorf("%v: duration %v", r.Fault, r.Duration)
	case r.Ops&^t.ops != 0:
		return fmt.Errorf("%v cannot strike %v, only %v", r.Fault, r.Ops&^t.ops, t.ops)
	case r.Call < 0:
		return fmt.Errorf("%v: call %d; they are counted from 1", r.Fault, r.Call)
	case !(r.Chance >= 0 && r.Chance <= 1): // written so that NaN is refused
		return fmt.Errorf("%v: chance %v; it is above 0 and at most 1", r.Fault, r.Chance)
	}
	return nil
}

// fits reports whether the rule matches an operation on any of some keys.
func (r Rule) fits(op Ops, keys []string) bool {
	if cmp.Or(r.Ops, faults[r.Fault].ops)&op == 0 {
		return false
	}
	return r.Below == "" || slices.ContainsFunc(keys, func(key string) bool { return strings.HasPrefix(key, r.Below) })
}

// strikes reports whether a rule affects the n-th call that it fits.
func (p *Plan) strikes(rule, n int) bool {
	r := p.Rules[rule]
	if r.Call != 0 && r.Call != n {
		return false
	}
	if r.Chance == 0 {
		return true
	}
	return p.random(rule, n).Float64() < r.Chance
}

// random returns the generator for one call, so that no decision depends on another.
func (p *Plan) random(rule, n int) *rand.Rand {
	return rand.New(rand.NewPCG(p.Seed, uint64(rule)<<32|uint64(n)))
}
