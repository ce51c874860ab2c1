package keys

import (
	"strings"
	"testing"
)

func TestJob_Z02_NameAndTypeReadBackUniquely(t *testing.T) {
	good, bad := []string{"a", "requestFile", "käse", "a-1", "a.b"}, []string{"", "a b", "a/b", `a\b`, "a|b", "_a", ".", "a\n"}
	checkNames(t, "job name", CheckJobName, append(good, "a_b"), bad)
	checkNames(t, "job type", CheckJobType, good, append(bad, "a_b")) // or a path could be read in two ways
	name, jobType, ok := ParseJobSegment(JobSegment("a_b", "t"))
	if name != "a_b" || jobType != "t" || !ok {
		t.Errorf("read back as %q and %q, %v", name, jobType, ok)
	}
}

func TestJob_Z04_ThePathJoinsTheSegments(t *testing.T) {
	s, _ := New("x")
	id := "requestFile_alpha|downloadFile_alpha|processFile_alpha"
	if err := CheckJobID(id); err != nil {
		t.Fatal(err)
	}
	if got, want := s.Job(id), "/x/tree/requestFile_alpha/downloadFile_alpha/processFile_alpha"; got != want {
		t.Errorf("the key is %q, want %q", got, want)
	}
	deep := strings.Repeat("a_t|", JobDepthMax-1) + "a_t"
	if err := CheckJobID(deep); err != nil {
		t.Errorf("%d levels: %v", JobDepthMax, err)
	}
	for _, id := range []string{deep + "|a_t", "a", "a_t|", "|a_t", "a_t||b_t", "a_t|b"} {
		if CheckJobID(id) == nil {
			t.Errorf("CheckJobID(%q) was accepted", id)
		}
	}
}
