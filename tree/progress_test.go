package tree

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-go/windlass"
)

func TestProgress_Z09_CountsByStateForAnySubtree(t *testing.T) {
	f := NewForest([]JobInfo{
		job("a_t", windlass.StatusCompleted, ran(10, 20)), job("a_t/b_t", windlass.StatusCompleted, ran(21, 31)),
		job("a_t/c_t", windlass.StatusRunning, claimed(5)), job("a_t/c_t/d_t", windlass.StatusBlocked),
		job("m_t/n_t", windlass.StatusPending),
	})
	const nearly = 1.0 / 30
	for _, c := range []struct {
		of   Path
		want Progress
	}{
		{"", Progress{Total: 5, Done: 2, Percent: 40, StartedAt: after(5), Rate: nearly, Left: seconds(90),
			Counts: map[windlass.Status]int{"completed": 2, "running": 1, "blocked": 1, "pending": 1}}},
		{"a_t/b_t", Progress{Total: 1, Done: 1, Percent: 100, StartedAt: after(21), FinishedAt: after(31), Left: seconds(0),
			Counts: map[windlass.Status]int{"completed": 1}}},
		{"a_t/c_t", Progress{Total: 2, StartedAt: after(5), Counts: map[windlass.Status]int{"running": 1, "blocked": 1}}},
		{"m_t", Progress{Total: 1, Counts: map[windlass.Status]int{"pending": 1}}},
		{"x_t", Progress{Left: seconds(0), Counts: map[windlass.Status]int{}}},
	} {
		if diff := cmp.Diff(c.want, f.Subtree(c.of).Progress(*after(50))); diff != "" {
			t.Errorf("%q (-want +got):\n%s", c.of, diff)
		}
	}
}

func seconds(s float64) *time.Duration {
	d := time.Duration(s * float64(time.Second))
	return &d
}

func TestProgress_Z11_WhatIsBelowAFailureIsBlockedForGood(t *testing.T) {
	f := NewForest([]JobInfo{
		job("a_t", windlass.StatusFailed), job("a_t/b_t", windlass.StatusBlocked), job("a_t/b_t/c_t", windlass.StatusBlocked),
		job("a_t/run_t", windlass.StatusPending), job("a_t/ran_t", windlass.StatusCompleted), job("a_t/ran_t/d_t", windlass.StatusBlocked),
		job("k_t", windlass.StatusKilled), job("k_t/gone_t/l_t", windlass.StatusBlocked),
		job("k_t/skipped_t", windlass.StatusKilled, because("k_t was killed")),
		job("m_t", windlass.StatusBlocked, because("a need of it failed")), job("m_t/n_t", windlass.StatusBlocked),
		job("o_t", windlass.StatusRunning), job("o_t/p_t", windlass.StatusBlocked),
	})
	for of, want := range map[Path]int{"": 6, "a_t": 3, "a_t/b_t": 2, "a_t/b_t/c_t": 1, "a_t/run_t": 0, "k_t": 1, "m_t": 2, "m_t/n_t": 1, "o_t": 0} {
		if got := f.Subtree(of).Progress(start).BlockedForGood; got != want {
			t.Errorf("below %q %d are blocked for good, want %d", of, got, want)
		}
	}
}

func TestProgress_Z09_NothingIsLeftWhereNothingCanRun(t *testing.T) {
	f := NewForest([]JobInfo{job("a_t", windlass.StatusFailed, ran(0, 1)), job("a_t/b_t", windlass.StatusBlocked)})
	p := f.Progress(*after(2))
	if p.Left == nil || *p.Left != 0 || p.FinishedAt != nil || p.Percent != 0 {
		t.Errorf("it is %+v", p)
	}
}

// Regression: a failed job counted as done, so that a tree with one was 100% done.
func TestProgress_Z09_WhatFailedOrWasKilledIsNotDone(t *testing.T) {
	f := NewForest([]JobInfo{
		job("a_t", windlass.StatusCompleted, ran(0, 1)), job("b_t", windlass.StatusFailed, ran(0, 2)),
		job("c_t", windlass.StatusKilled, ran(0, 3)), job("d_t", windlass.StatusCompleted, ran(0, 1)),
	})
	p := f.Progress(*after(4))
	if p.Done != 2 || p.Percent != 50 || p.Left == nil || *p.Left != 0 || p.FinishedAt == nil || !p.FinishedAt.Equal(*after(3)) {
		t.Errorf("nothing is left of it, and half of it is done: %+v", p)
	}
}

// ended returns jobs that ended at these seconds, and one that has not.
func ended(at ...float64) []JobInfo {
	jobs := many("", len(at), always(windlass.StatusCompleted))
	for i := range jobs {
		jobs[i].FinishedAt = after(at[i])
	}
	return append(jobs, job("rest_t", windlass.StatusPending))
}

func steps(from, step float64, count int) (all []float64) {
	for i := range count {
		all = append(all, from+step*float64(i))
	}
	return all
}

func TestProgress_Z09_TheTimeLeftGoesByTheLatestEndings(t *testing.T) {
	const never = -1
	for _, c := range []struct {
		name       string
		endings    []float64
		now        float64
		rate, left float64
	}{
		{"none has ended", nil, 100, 0, never},
		{"one has ended", []float64{1}, 100, 0, never},
		{"two have ended", []float64{80, 90}, 100, 1.0 / 20, 20},
		{"their order does not matter", []float64{90, 80}, 100, 1.0 / 20, 20},
		{"a stall lowers the rate", []float64{80, 90}, 1080, 1.0 / 1000, 1000},
		{"the slow beginning is forgotten", append(steps(0, 100, 20), steps(5000, 1, 20)...), 5020, 19.0 / 20, 20.0 / 19},
		{"of many, a tenth counts", append(steps(0, 10, 270), steps(5000, 1, 30)...), 5030, 29.0 / 30, 30.0 / 29},
		{"all at once and just now", steps(100, 0, 30), 100, 0, never},
		{"all at once, a while ago", steps(98, 0, 30), 100, 19.0 / 2, 2.0 / 19},
		{"the node's clock is a little ahead", []float64{100, 110}, 105, 1.0 / 10, 10},
		{"all of them are", []float64{110, 120}, 100, 1.0 / 10, 10},
		{"one clock is wrong by far", []float64{80, 90, 1e9}, 100, 2.0 / 20, 10},
		{"all clocks are", []float64{1e8, 1e9}, 100, 0, never},
		{"one is behind by centuries", []float64{-9e9, 90}, 100, 1 / (9e9 + 100), never},
	} {
		p := NewForest(ended(c.endings...)).Progress(*after(c.now))
		got := -1.0
		if p.Left != nil {
			got = p.Left.Seconds()
		}
		if math.Abs(p.Rate-c.rate) > 1e-9 || math.Abs(got-c.left) > 1e-6 {
			t.Errorf("%s: the rate is %v and %v seconds are left; want %v and %v", c.name, p.Rate, got, c.rate, c.left)
		}
	}
}

func TestProgress_Z09_ATimeThatIsNotKnownIsNoTime(t *testing.T) {
	jobs := ended(80, 90, 0)
	jobs[2].FinishedAt, jobs[2].ClaimedAt = &time.Time{}, &time.Time{}
	if p := NewForest(jobs).Progress(*after(100)); p.StartedAt != nil || p.Done != 3 || math.Abs(p.Rate-1.0/20) > 1e-9 {
		t.Errorf("it is %+v", p)
	}
	if p := NewForest(jobs).Progress(time.Time{}); p.Rate != 0 || p.Left != nil {
		t.Errorf("without a time of its own it is %+v", p)
	}
}

func TestProgress_Z09_ItsJSONIsStableAndReadsBack(t *testing.T) {
	for _, c := range []struct {
		progress Progress
		want     string
	}{
		{NewForest(ended(80, 90)).Progress(*after(100)), `{"total":3,"counts":{"completed":2,"pending":1},"done":2,"percent":66.66666666666667,` +
			`"blocked_for_good":0,"started_at":null,"finished_at":null,"rate":0.05,"left_seconds":20}`},
		{NewForest([]JobInfo{job("a_t", windlass.StatusFailed, ran(1, 2))}).Progress(start), `{"total":1,"counts":{"failed":1},"done":0,"percent":0,` +
			`"blocked_for_good":0,"started_at":"2026-03-01T12:00:01Z","finished_at":"2026-03-01T12:00:02Z","rate":0,"left_seconds":0}`},
		{NewForest([]JobInfo{job("a_t", windlass.StatusPending)}).Progress(start), `{"total":1,"counts":{"pending":1},"done":0,"percent":0,` +
			`"blocked_for_good":0,"started_at":null,"finished_at":null,"rate":0,"left_seconds":null}`},
	} {
		got, err := json.Marshal(c.progress)
		if err != nil || string(got) != c.want {
			t.Errorf("it is\n%s, want\n%s (%v)", got, c.want, err)
		}
		var again Progress
		if err := json.Unmarshal(got, &again); err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(c.progress, again); diff != "" {
			t.Errorf("it reads back otherwise: %s", diff)
		}
	}
	var p Progress
	if json.Unmarshal([]byte(`{"total":"x"}`), &p) == nil {
		t.Error("a total that is no number is read")
	}
}

func FuzzProgress(f *testing.F) {
	f.Add(int64(0), int64(0), int64(0), 3)
	f.Add(int64(math.MaxInt64), int64(math.MinInt64), int64(1), 100)
	f.Fuzz(func(t *testing.T, first, second, now int64, rest int) {
		jobs := many("", 2+max(0, min(rest, 1000)), always(windlass.StatusPending))
		for i, at := range []int64{first, second} {
			finished := time.Unix(0, at)
			jobs[i].Status, jobs[i].FinishedAt = windlass.StatusCompleted, &finished
		}
		p := NewForest(jobs).Progress(time.Unix(0, now))
		if math.IsNaN(p.Rate) || math.IsInf(p.Rate, 0) || p.Rate < 0 || (p.Left != nil && *p.Left < 0) {
			t.Fatalf("the rate is %v and %v is left", p.Rate, p.Left)
		}
		if _, err := json.Marshal(p); err != nil {
			t.Fatal(err)
		}
	})
}
