package zoott

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/windlass-go/windlass/bench/internal/report"
	"github.com/windlass-go/windlass/bench/internal/servers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRun_BothSidesTakeTheFirstJob(t *testing.T) {
	if missing := servers.MissingZooKeeper(); missing != "" {
		t.Skip(missing)
	}
	var r report.Report
	err := Run(t.Context(), Config{
		Dir: t.TempDir(), Pending: []int{5}, Takes: 3, Repetitions: 1, Timeout: time.Minute, Progress: t.Logf,
	}, &r)
	if err != nil || len(r.LeftOut) > 0 {
		t.Fatal(err, r.LeftOut)
	}
	for _, side := range []string{SideWindlass, SideOriginal} {
		if m := r.Workload(Workload).Find(Row(5), side); m == nil || m.Median <= 0 {
			t.Errorf("of %s there is %+v", side, m)
		}
	}
}
