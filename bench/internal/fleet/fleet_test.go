package fleet

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/windlass-go/windlass/bench/internal/report"
	"github.com/windlass-go/windlass/broker/etcd/embedded"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// output is of the shape that windlass bench prints.
const output = `{"tasks":10,"nodes":3,"figures":[
	{"phase":"raw","figure":"claims in bulk","value":100,"unit":"/s","raw":null,"ratio":null},
	{"phase":"place","figure":"placed","value":40,"unit":"/s","raw":100,"raw_limit":"claims in bulk","ratio":0.4}]}`

func TestParse_ReadsWhatWindlassBenchPrints(t *testing.T) {
	r, err := Parse([]byte(output))
	if err != nil {
		t.Fatal(err)
	}
	f, err := Find(r, "place", "placed")
	if err != nil || f.Value != 40 || f.Ratio == nil || *f.Ratio != 0.4 {
		t.Errorf("it is %+v (%v)", f, err)
	}
	if _, err := Find(r, "place", "another"); err == nil {
		t.Error("it finds what is not there")
	}
	for _, bad := range []string{"", "{", `{"figures":[]}`} {
		if _, err := Parse([]byte(bad)); err == nil {
			t.Errorf("%q can be read", bad)
		}
	}
}

func TestAdd_MissesAFigureThatIsShown(t *testing.T) {
	r, err := Parse([]byte(output))
	if err != nil {
		t.Fatal(err)
	}
	if err := add(&report.Workload{}, side(1), r); err == nil {
		t.Error("a figure is missing and nobody said so")
	}
}

func TestMeasureLimits_HearsOfEveryPut(t *testing.T) {
	server, err := embedded.Start(t.Context(), embedded.Config{Dir: t.TempDir(), Socket: true, UnsafeNoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	}()
	const puts = 500
	l, err := measureLimits(t.Context(), []string{"unix://" + server.Socket()}, puts)
	if err != nil {
		t.Fatal(err)
	}
	if len(l.delays) != watchers*puts || l.single <= 0 || l.atOnce <= 0 || l.events <= 0 {
		t.Errorf("%d events, %v and %v claims and %v events in a second", len(l.delays), l.single, l.atOnce, l.events)
	}
	if l.delay(50) <= 0 || l.delay(99) < l.delay(50) {
		t.Errorf("they are told after %v and %v ms", l.delay(50), l.delay(99))
	}
}
