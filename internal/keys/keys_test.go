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

func TestTaskID_M05_IsValidated(t *testing.T) {
	good := []string{"a", "ab", "a|b", "a-1", "käse", "a b", "props", "owner", strings.Repeat("x", 512)}
	bad := []string{"", ".", "..", "_x", "a/b", "a\x00b", "a\tb", "\xff", "emoji\U0001F600", "\ue000", "\ufffd",
		strings.Repeat("x", 513)}
	for _, id := range good {
		if err := CheckTaskID(id); err != nil {
			t.Errorf("CheckTaskID(%q) = %v", id, err)
		}
	}
	for _, id := range bad {
		err := CheckTaskID(id)
		if err == nil {
			t.Errorf("CheckTaskID(%q) was accepted", id)
			continue
		}
		if !strings.Contains(err.Error(), "task ID") {
			t.Errorf("the error %q does not name the field", err)
		}
	}
}

func TestElectionNames_L01_AreValidated(t *testing.T) {
	for field, check := range map[string]func(string) error{"election name": CheckElectionName, "candidate name": CheckCandidateName} {
		for _, name := range []string{"e", "käse", "a b", strings.Repeat("x", 128)} {
			if err := check(name); err != nil {
				t.Errorf("%s %q: %v", field, name, err)
			}
		}
		for _, name := range []string{"", " ", ".", "..", "_x", "a/b", "a\x00b", strings.Repeat("x", 129)} {
			if err := check(name); err == nil || !strings.Contains(err.Error(), field) {
				t.Errorf("%s %q: %v", field, name, err)
			}
		}
	}
}

func TestParse_ReadsBackWhatSpaceSpells(t *testing.T) {
	s, err := New("app/blue")
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]Parsed{
		s.Task("a|b"):              {Kind: Task, Name: "a|b"},
		s.Props("a"):               {Kind: Props, Name: "a"},
		s.Owner("a"):               {Kind: Owner, Name: "a"},
		s.Handover("a"):            {Kind: Handover, Name: "a"},
		s.State("a"):               {Kind: State, Name: "a"},
		s.Claim("a"):               {Kind: Claim, Name: "a"},
		s.History("a"):             {Kind: History, Name: "a"},
		s.Progress("a"):            {Kind: Progress, Name: "a"},
		s.TaskCommand("a"):         {Kind: TaskCommand, Name: "a"},
		s.Failed("a"):              {Kind: Failed, Name: "a"},
		s.Requeue("a"):             {Kind: Requeue, Name: "a"},
		s.Job("a_t"):               {Kind: Job, Name: "a_t"},
		s.Job("a_t|b_c_t"):         {Kind: Job, Name: "a_t|b_c_t"},
		s.NodeInfo("n"):            {Kind: NodeInfo, Name: "n"},
		s.NodeCommand("n", "0190"): {Kind: NodeCommand, Name: "n", Command: "0190"},
		s.Layout():                 {Kind: Layout},
		s.Candidate("e", "c"):      {Kind: Candidate, Name: "e", Candidate: "c"},
	} {
		if got := s.Parse(key); got != want {
			t.Errorf("Parse(%q) = %+v, want %+v", key, got, want)
		}
	}
}

func TestParse_M06_LeavesUnknownKeysAlone(t *testing.T) {
	s, _ := New("x")
	for _, key := range []string{"/y/tasks/a", "/x2/tasks/a", "/x/tasks", "/x/tasks/", "/x/tasks/_metafora",
		"/x/tasks/a/", "/x/tasks/a/commands", "/x/tasks/a/owner/b", "/x/nodes/n", "/x/nodes/n/commands/",
		"/x/nodes/n/commands/a/b", "/x/nodes/n/_metafora", "/x/state/a/b", "/x/elections", "/x/elections/", "/x/elections/e", "/x/elections/e/",
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
	for _, seed := range []string{"/x/tasks/a", "/x/tasks/a/owner", "/x/nodes/n/commands/1", "/x/state/a|b", "/x/tree/a_t/b_t", "/x/elections/e/c", "/x//"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, key string) {
		p := s.Parse(key)
		spelled := map[Kind]string{
			Task: s.Task(p.Name), Props: s.Props(p.Name), Owner: s.Owner(p.Name), Handover: s.Handover(p.Name), State: s.State(p.Name),
			Claim: s.Claim(p.Name), History: s.History(p.Name), Progress: s.Progress(p.Name), TaskCommand: s.TaskCommand(p.Name), NodeInfo: s.NodeInfo(p.Name),
			NodeCommand: s.NodeCommand(p.Name, p.Command), Layout: s.Layout(), Failed: s.Failed(p.Name), Requeue: s.Requeue(p.Name),
			Job: s.Job(p.Name), Candidate: s.Candidate(p.Name, p.Candidate),
		}
		if p.Kind != Unknown && spelled[p.Kind] != key {
			t.Errorf("Parse(%q) = %+v, which spells %q", key, p, spelled[p.Kind])
		}
	})
}
