package tree

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-go/windlass"
)

func TestForest_Z09_JobsStandRightAfterTheirParentAndSortedBySegments(t *testing.T) {
	f := NewForest([]JobInfo{
		job("a_t-1", windlass.StatusPending),
		job("b_t", windlass.StatusPending),
		job("a_t/b_t/c_t", windlass.StatusPending),
		job("a_t/b_t!", windlass.StatusPending),
		job("a_t/b_t", windlass.StatusPending),
		job("a_t.x", windlass.StatusPending),
		job("a_t", windlass.StatusPending),
		job("a_t/a_t", windlass.StatusPending),
	})
	want := "a_t a_t/a_t a_t/b_t a_t/b_t/c_t a_t/b_t! a_t-1 a_t.x b_t"
	if got := paths(f.Jobs()); got != want || f.Len() != 8 {
		t.Errorf("%d jobs: %s, want %s", f.Len(), got, want)
	}
	if got := joined(f.Roots()); got != "a_t a_t-1 a_t.x b_t" {
		t.Errorf("the roots are %s", got)
	}
	if got := joined(f.Children("")); got != joined(f.Roots()) {
		t.Errorf("below the empty path are %s", got)
	}
	if got := joined(f.Children("a_t")); got != "a_t/a_t a_t/b_t a_t/b_t!" {
		t.Errorf("the children are %s", got)
	}
	if got := append(f.Children("a_t/a_t"), f.Children("x_t")...); len(got) != 0 {
		t.Errorf("below a leaf, or nothing, are %s", got)
	}
}

func TestForest_Z09_AJobWhoseAncestorsAreMissingIsStillThere(t *testing.T) {
	f := NewForest([]JobInfo{
		job("a_t/b_t/c_t", windlass.StatusRunning),
		job("a_t/b_t/d_t", windlass.StatusPending),
		job("a_t/b_t-1/e_t", windlass.StatusPending),
		job("z_t", windlass.StatusPending),
	})
	if got := paths(f.Jobs()); got != "a_t/b_t/c_t a_t/b_t/d_t a_t/b_t-1/e_t z_t" || f.Len() != 4 {
		t.Errorf("%d jobs: %s", f.Len(), got)
	}
	if got := joined(f.Roots()) + ", " + joined(f.Children("a_t")); got != "a_t z_t, a_t/b_t a_t/b_t-1" {
		t.Errorf("the roots, and what is below a missing one, are %s", got)
	}
	if _, ok := f.Get("a_t"); ok {
		t.Error("the place of a missing job is a job")
	}
	if j, ok := f.Get("a_t/b_t/c_t"); !ok || j.Status != windlass.StatusRunning || j.Parent != "a_t/b_t" {
		t.Errorf("the job below is %+v, %v", j, ok)
	}
}

func TestForest_Z09_TheLaterOfTwoJobsWithOnePathCounts(t *testing.T) {
	f := NewForest([]JobInfo{
		job("a_t", windlass.StatusPending), job("", windlass.StatusRunning), job("a_t/b_t", windlass.StatusPending),
		job("a_t", windlass.StatusRunning),
	})
	j, ok := f.Get("a_t")
	if !ok || j.Status != windlass.StatusRunning || f.Len() != 2 {
		t.Errorf("of %d jobs it is %+v, %v", f.Len(), j, ok)
	}
}

func TestForest_Z09_ASubtreeIsTheJobWithAllBelowIt(t *testing.T) {
	f := NewForest([]JobInfo{
		job("a_t", windlass.StatusCompleted), job("a_t/b_t", windlass.StatusRunning), job("a_t/b_t/c_t", windlass.StatusBlocked),
		job("a_t/b_t-1", windlass.StatusPending), job("m_t/n_t", windlass.StatusPending),
	})
	for _, c := range []struct {
		of          Path
		jobs, roots string
	}{
		{"", "a_t a_t/b_t a_t/b_t/c_t a_t/b_t-1 m_t/n_t", "a_t m_t"},
		{"a_t", "a_t a_t/b_t a_t/b_t/c_t a_t/b_t-1", "a_t"},
		{"a_t/b_t", "a_t/b_t a_t/b_t/c_t", "a_t/b_t"},
		{"a_t/b_t/c_t", "a_t/b_t/c_t", "a_t/b_t/c_t"},
		{"m_t", "m_t/n_t", "m_t"},
		{"x_t", "", ""},
	} {
		s := f.Subtree(c.of)
		if got := paths(s.Jobs()); got != c.jobs || s.Len() != len(s.Jobs()) {
			t.Errorf("below %q are %d: %s, want %s", c.of, s.Len(), got, c.jobs)
		}
		if got := joined(s.Roots()); got != c.roots {
			t.Errorf("the roots of %q are %s, want %s", c.of, got, c.roots)
		}
	}
	s := f.Subtree("a_t/b_t")
	if _, ok := s.Get("a_t"); ok || s.Children("a_t") != nil || s.Subtree("a_t").Len() != 0 {
		t.Error("a subtree knows what is above it")
	}
	if got := paths(s.Subtree("a_t/b_t/c_t").Jobs()); got != "a_t/b_t/c_t" {
		t.Errorf("the subtree of a subtree is %s", got)
	}
}

func TestForest_Z09_TheEmptyOneHasNothing(t *testing.T) {
	var b strings.Builder
	for _, f := range []*Forest{{}, NewForest(nil)} {
		found, err := f.Find(Pattern{})
		if f.Len() != 0 || len(f.Jobs())+len(f.Roots())+len(found) != 0 || err != nil || f.Subtree("a_t").Len() != 0 {
			t.Error("it has jobs")
		}
		if err := f.Draw(&b, DrawOptions{}); err != nil || b.Len() != 0 {
			t.Errorf("it is drawn as %q, %v", b.String(), err)
		}
	}
}

func TestForest_Z05_FindsWhatMatchesAtAnyDepth(t *testing.T) {
	f := NewForest([]JobInfo{
		job("file_alpha", windlass.StatusPending), job("file_alpha/file_alpha", windlass.StatusPending),
		job("file_alpha/file2_alpha", windlass.StatusPending), job("gone_beta/file_beta", windlass.StatusPending),
	})
	for _, c := range []struct {
		pattern Pattern
		want    string
	}{
		{Pattern{Name: "file"}, "file_alpha file_alpha/file_alpha gone_beta/file_beta"},
		{Pattern{Name: "file.*", Type: "alpha"}, "file_alpha file_alpha/file2_alpha file_alpha/file_alpha"},
		{Pattern{Name: "gone"}, ""},
		{Pattern{Type: "beta"}, "gone_beta/file_beta"},
	} {
		found, err := f.Find(c.pattern)
		if got := paths(found); got != c.want || err != nil {
			t.Errorf("%+v finds %s, %v; want %s", c.pattern, got, err, c.want)
		}
	}
	below, err := f.Subtree("file_alpha/file2_alpha").Find(Pattern{})
	if got := paths(below); got != "file_alpha/file2_alpha" || err != nil {
		t.Errorf("in a part it finds %s, %v", got, err)
	}
	if _, err := f.Find(Pattern{Name: "("}); err == nil {
		t.Error("an expression that does not compile finds something")
	}
}

// TestForest_Z09_ItIsTheSameInWhateverOrderJobsCome compares with the definition,
// for random trees.
func TestForest_Z09_ItIsTheSameInWhateverOrderJobsCome(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 1))
		jobs := randomJobs(random, 40)
		f := NewForest(jobs)
		random.Shuffle(len(jobs), func(i, k int) { jobs[i], jobs[k] = jobs[k], jobs[i] })
		again := NewForest(jobs)
		if diff := cmp.Diff(f.Jobs(), again.Jobs()); diff != "" {
			t.Fatalf("seed %d: %s", seed, diff)
		}
		for _, j := range jobs {
			want := 0
			for _, o := range jobs {
				if o.Path == j.Path || strings.HasPrefix(string(o.Path), string(j.Path)+"/") {
					want++
				}
			}
			if got := f.Subtree(j.Path).Len(); got != want {
				t.Fatalf("seed %d: below %q are %d jobs, want %d", seed, j.Path, got, want)
			}
			if got := f.Subtree(j.Path).Jobs()[0].Path; got != j.Path {
				t.Fatalf("seed %d: the first job of %q is %q", seed, j.Path, got)
			}
		}
	}
}

// randomJobs have different paths, and some of their ancestors are missing.
func randomJobs(random *rand.Rand, count int) []JobInfo {
	segments := []string{"a_t", "a_t-1", "a_t!", "a_t.b", "b_t", "ab_t"}
	seen := map[Path]bool{}
	var jobs []JobInfo
	for range count {
		var p []string
		for range 1 + random.IntN(4) {
			p = append(p, segments[random.IntN(len(segments))])
		}
		path := Path(strings.Join(p, "/"))
		if !seen[path] {
			seen[path] = true
			jobs = append(jobs, job(path, windlass.Statuses[random.IntN(len(windlass.Statuses))], on(fmt.Sprint(random.IntN(9)))))
		}
	}
	return jobs
}
