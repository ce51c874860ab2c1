package growth

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/windlass-go/windlass/bench/internal/report"
	"github.com/windlass-go/windlass/broker/etcd/embedded"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestPending_ListsAndTakes(t *testing.T) {
	server, err := embedded.Start(t.Context(), embedded.Config{Dir: t.TempDir(), Socket: true, UnsafeNoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	}()
	list, dequeue, err := pending(t.Context(), []string{"unix://" + server.Socket()}, 50, 10)
	if err != nil || list <= 0 || dequeue <= 0 {
		t.Errorf("%v µs and %v µs (%v)", list, dequeue, err)
	}
}

func measured() *report.Workload {
	w := &report.Workload{Sides: []report.Side{{Name: Side(100)}, {Name: Side(1000)}, {Name: Side(100_000)}, {Name: SideGrowth}}}
	for side, costs := range map[string][]float64{Side(100): {90, 100, 110}, Side(1000): {10, 20, 30}, Side(100_000): {30, 50}} {
		w.Add(RowPlace, side, report.Microseconds, costs...)
	}
	return w
}

func TestGrown_IsTheMedianOfTheMostBesideAThousand(t *testing.T) {
	w := measured()
	Config{Sizes: []int{100, 1000, 100_000}}.grown(w)
	if m := w.Find(RowPlace, SideGrowth); m == nil || m.Median != 2 {
		t.Errorf("it is %+v", m)
	}
	few := measured()
	if (Config{Sizes: []int{100, 1000}}).grown(few); few.Find(RowPlace, SideGrowth) != nil {
		t.Error("there is growth without anything above a thousand")
	}
}

func TestPlots_HaveAPointForEachSize(t *testing.T) {
	w := measured()
	Config{Sizes: []int{100, 1000, 100_000}}.grown(w)
	for _, line := range Plots(w)["growth-time.svg"].Lines {
		if line.Name != "place" {
			continue
		}
		if len(line.Points) != 3 || line.Points[2] != (report.Point{X: 100_000, Y: 40}) {
			t.Errorf("it is %v", line.Points)
		}
		return
	}
	t.Error("there is no line for placing")
}
