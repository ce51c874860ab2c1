package faulty_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/faulty"
	"github.com/windlass-go/windlass/broker/memory"
)

const everything = `seed 18446744073709551615
delay-request 50ms on get,commit below "/w/ft \"x\"/" call 3 chance 0.25
delay-reply 1h0m0.5s
lose-request 0s on list
lose-reply 2s on commit,grant,keepalive,revoke
late 1m0s on commit below "/é\n\xff"
refuse on watch
stall on batch call 1
break chance 1e-09
compact on list,watch,batch
reorder 3ms on commit
`

func TestPlanIsReadBackAsPrinted(t *testing.T) {
	p := faulty.MustParse(everything)
	if got := p.String(); got != everything {
		t.Errorf("the plan is printed as\n%swant\n%s", got, everything)
	}
	want := faulty.Rule{Fault: faulty.DelayRequest, Duration: 50 * time.Millisecond, Ops: faulty.OpGet | faulty.OpCommit,
		Below: `/w/ft "x"/`, Call: 3, Chance: 0.25}
	if diff := cmp.Diff(want, p.Rules[0]); diff != "" {
		t.Errorf("the first rule (-want +got):\n%s", diff)
	}
}

func TestParseSkipsCommentsAndSpace(t *testing.T) {
	p := faulty.MustParse("\n  # why\r\n\tseed  7 \n stall   on\tget  \n\n")
	if got, want := p.String(), "seed 7\nstall on get\n"; got != want {
		t.Errorf("the plan is %q, want %q", got, want)
	}
}

func TestParseRefuses(t *testing.T) {
	tests := []struct{ text, says string }{
		{"seed x", "invalid syntax"},
		{"seed 1\nseed 2", "unknown"},
		{"stall\nseed 1", "unknown"},
		{"explode", `fault "explode" is unknown`},
		{"delay-request", "needs a duration"},
		{"delay-request soon", "invalid duration"},
		{"delay-request -1s", "duration -1s"},
		{"stall 1s", `"1s" is unknown`},
		{"stall on", `"on" needs a value`},
		{"stall on put", `operation "put" is unknown`},
		{"stall on get,", `operation "" is unknown`},
		{"break on get", "cannot strike get"},
		{"late 1s on watch", "cannot strike watch"},
		{"stall call 2 on get", "the order is"},
		{"stall on get on list", "the order is"},
		{"stall call 0", "counted from 1"},
		{"stall chance 0", "above 0"},
		{"stall chance NaN", "above 0"},
		{"stall chance 1.1", "at most 1"},
		{"stall below /a/", "invalid syntax"},
		{`stall below ""`, "empty key"},
		{`stall below "/a`, "quotation"},
		{strings.Repeat("stall\n", faulty.RulesMax+1), "the limit is 1000"},
	}
	for _, test := range tests {
		_, err := faulty.Parse(test.text)
		if _, ok := errors.AsType[*faulty.Error](err); !ok || !strings.Contains(err.Error(), test.says) {
			t.Errorf("Parse(%.40q): %v, want a *faulty.Error that says %q", test.text, err, test.says)
		}
	}
}

func TestWrapPanicsOnARuleWithoutSense(t *testing.T) {
	for _, r := range []faulty.Rule{{}, {Fault: 99}, {Fault: faulty.Stall, Duration: 1}, {Fault: faulty.Stall, Call: -1},
		{Fault: faulty.Break, Ops: faulty.OpGet}, {Fault: faulty.Stall, Ops: 1 << 15}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("Wrap took the rule %q (%+v)", r, r)
				}
			}()
			faulty.Wrap(memory.New().Broker(), &faulty.Plan{Rules: []faulty.Rule{r}})
		}()
	}
}

func TestAnyPlanIsReadBackAsPrinted(t *testing.T) {
	faults := map[faulty.Fault]faulty.Ops{
		faulty.DelayRequest: faulty.OpGet | faulty.OpBatch, faulty.LoseReply: faulty.OpCommit | faulty.OpList,
		faulty.Late: faulty.OpKeepAlive, faulty.Stall: faulty.OpWatch, faulty.Compact: faulty.OpBatch,
	}
	names := []faulty.Fault{faulty.DelayRequest, faulty.LoseReply, faulty.Late, faulty.Stall, faulty.Compact}
	rule := rapid.Custom(func(t *rapid.T) faulty.Rule {
		r := faulty.Rule{
			Fault:  rapid.SampledFrom(names).Draw(t, "fault"),
			Below:  rapid.String().Draw(t, "below"),
			Call:   rapid.IntRange(0, 1000).Draw(t, "call"),
			Chance: rapid.Float64Range(0, 1).Draw(t, "chance"),
		}
		r.Ops = faults[r.Fault] * faulty.Ops(rapid.IntRange(0, 1).Draw(t, "ops"))
		if r.Fault < faulty.Refuse {
			r.Duration = time.Duration(rapid.Int64Range(0, 1<<62).Draw(t, "duration"))
		}
		return r
	})
	rapid.Check(t, func(t *rapid.T) {
		p := &faulty.Plan{Seed: rapid.Uint64().Draw(t, "seed"), Rules: rapid.SliceOfN(rule, 1, 5).Draw(t, "rules")}
		got, err := faulty.Parse(p.String())
		if err != nil {
			t.Fatalf("%v\n%s", err, p)
		}
		if diff := cmp.Diff(p, got); diff != "" {
			t.Fatalf("(-want +got):\n%s\n%s", diff, p)
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add(everything)
	for _, line := range strings.Split(everything, "\n") {
		f.Add(line)
	}
	f.Add("# comment\nseed 1\n\nlate 0.5s call +1 chance 0x1p-2")
	f.Add("stall below `/raw`")
	f.Add("stall below 'x'call 1")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := faulty.Parse(text)
		if err != nil {
			return
		}
		again, err := faulty.Parse(p.String())
		if err != nil {
			t.Fatalf("%q was read but its print was not: %v\n%s", text, err, p)
		}
		if diff := cmp.Diff(p, again); diff != "" {
			t.Errorf("%q is read back as another plan (-want +got):\n%s", text, diff)
		}
	})
}

// strikes returns which of 200 reads the first rule of a plan struck.
func strikes(t *testing.T, plan string) []int {
	t.Helper()
	b := faulty.Wrap(memory.New().Broker(), faulty.MustParse(plan))
	defer func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}()
	var struck []int
	for i := range 200 {
		before := b.Struck()[0]
		if _, err := b.Get(t.Context(), "/a"); !errors.Is(err, broker.ErrUnavailable) && !errors.Is(err, broker.ErrNotFound) {
			t.Fatal(err)
		}
		if b.Struck()[0] > before {
			struck = append(struck, i)
		}
	}
	return struck
}

func TestChanceDependsOnTheSeedAlone(t *testing.T) {
	first := strikes(t, "seed 1\nrefuse on get chance 0.25")
	if n := len(first); n < 25 || n > 75 {
		t.Errorf("of 200 calls %d were struck with a chance of 0.25", n)
	}
	if again := strikes(t, "seed 1\nrefuse on get chance 0.25"); !slices.Equal(first, again) {
		t.Errorf("the same plan struck %v, then %v", first, again)
	}
	if other := strikes(t, "seed 1\nrefuse on get chance 0.25\nrefuse on get chance 0.5"); !slices.Equal(first, other) {
		t.Errorf("with another rule after it the rule struck %v, without it %v", other, first)
	}
	if other := strikes(t, "seed 2\nrefuse on get chance 0.25"); slices.Equal(first, other) {
		t.Error("another seed struck the same calls")
	}
}
