package keys

import (
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestNamespace_M01_IsTrimmedOrRefused(t *testing.T) {
	for _, in := range []string{"x", "/x", "x/", " /x/ ", "//x//"} {
		s, err := New(in)
		if err != nil || s.Root() != "/x" {
			t.Errorf("New(%q) = %q, %v; want /x", in, s.Root(), err)
		}
	}
	for _, in := range []string{"", " ", "/", "a//b", "a/../b", "a\nb", strings.Repeat("n", 201)} {
		if _, err := New(in); err == nil {
			t.Errorf("New(%q) was accepted", in)
		}
	}
}

// checkNames checks which names a check of a field accepts and refuses.
func checkNames(t *testing.T, field string, check func(string) error, good, bad []string) {
	t.Helper()
	for _, name := range good {
		if err := check(name); err != nil {
			t.Errorf("%s %q: %v", field, name, err)
		}
	}
	for _, name := range bad {
		if err := check(name); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s %q: %v, want an error that names the field", field, name, err)
		}
	}
}

func TestTaskID_M05_IsValidated(t *testing.T) {
	checkNames(t, "task ID", CheckTaskID,
		[]string{"a", "ab", "a|b", "a-1", "käse", "a b", "props", "owner", strings.Repeat("x", 512)},
		[]string{"", ".", "..", "_x", "a/b", "a\x00b", "a\tb", "\xff", "emoji\U0001F600", "\ue000", "\ufffd", strings.Repeat("x", 513)})
}

func TestElectionNames_L01_AreValidated(t *testing.T) {
	for field, check := range map[string]func(string) error{"election name": CheckElectionName, "candidate name": CheckCandidateName} {
		checkNames(t, field, check, []string{"e", "käse", "a b", strings.Repeat("x", 128)},
			[]string{"", " ", ".", "..", "_x", "a/b", "a\x00b", strings.Repeat("x", 129)})
	}
}

// spelled returns the key of each kind with the names of a parsed key.
func spelled(s Space, p Parsed) map[Kind]string {
	return map[Kind]string{
		Task: s.Task(p.Name), Props: s.Props(p.Name), Owner: s.Owner(p.Name), Handover: s.Handover(p.Name), State: s.State(p.Name),
		Claim: s.Claim(p.Name), History: s.History(p.Name), Progress: s.Progress(p.Name), TaskCommand: s.TaskCommand(p.Name),
		NodeInfo: s.NodeInfo(p.Name), NodeCordon: s.NodeCordon(p.Name), NodeReturn: s.NodeReturn(p.Name), NodeCommand: s.NodeCommand(p.Name, p.Command), NodeDeath: s.NodeDeath(p.Name, p.Incarnation),
		Layout: s.Layout(), Failed: s.Failed(p.Name), Requeue: s.Requeue(p.Name), Job: s.Job(p.Name), Candidate: s.Candidate(p.Name, p.Candidate),
		TypePause: s.TypePause(p.Name),
	}
}

func TestParse_ReadsBackTheKeysOfASpace(t *testing.T) {
	s, err := New("app/blue")
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Parse(s.TypePause("")); got != (Parsed{Kind: TypePause}) || s.Parse(s.TypePauseAttempt("t")) != (Parsed{}) {
		t.Errorf("the pause of tasks without a type is read as %+v", got)
	}
	for kind := Unknown + 1; kind <= Candidate; kind++ {
		want := Parsed{Kind: kind, Name: "a|b"}
		switch kind {
		case NodeCommand:
			want.Command = "0190"
		case NodeDeath:
			want.Incarnation = "0190"
		case Job:
			want.Name = "a_t|b_c_t"
		case Layout:
			want.Name = ""
		case Candidate:
			want.Candidate = "c"
		}
		if key := spelled(s, want)[kind]; s.Parse(key) != want {
			t.Errorf("Parse(%q) = %+v, want %+v", key, s.Parse(key), want)
		}
	}
}

func TestParse_M06_LeavesUnknownKeysAlone(t *testing.T) {
	s, _ := New("x")
	for _, key := range []string{"/y/tasks/a", "/x2/tasks/a", "/x/tasks", "/x/tasks/", "/x/tasks/_metafora",
		"/x/tasks/a/", "/x/tasks/a/commands", "/x/tasks/a/owner/b", "/x/nodes/n", "/x/nodes/n/commands/",
		"/x/nodes/n/commands/a/b", "/x/nodes/_paused/", "/x/nodes/_paused/a/b", "/x/nodes/_paused/_a", "/x/nodes/n/deaths", "/x/nodes/n/deaths/", "/x/nodes/n/other/a", "/x/nodes/n/_metafora", "/x/state/a/b", "/x/elections", "/x/elections/", "/x/elections/e", "/x/elections/e/",
		"/x/elections//c", "/x/elections/_e/c", "/x/elections/e/_c", "/x/elections/e/c/d", "/x/layout/", "/x/layout/a", "/x/layouts",
		"/x/tree", "/x/tree/", "/x/tree/a", "/x/tree/a_t|b_t", "/x/tree/a_t/b", "/x/tree/a b_t", "/x/tree/_t",
		"", "x/tasks/a"} {
		if got := s.Parse(key); got != (Parsed{}) {
			t.Errorf("Parse(%q) = %+v, want it unknown", key, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	s, _ := New("x")
	for _, seed := range []string{"/x/tasks/a", "/x/tasks/a/owner", "/x/nodes/n/commands/1", "/x/nodes/n/cordon", "/x/state/a|b", "/x/tree/a_t/b_t", "/x/elections/e/c", "/x//"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, key string) {
		p := s.Parse(key)
		if p.Kind != Unknown && spelled(s, p)[p.Kind] != key {
			t.Errorf("Parse(%q) = %+v, whose key is %q", key, p, spelled(s, p)[p.Kind])
		}
	})
}
