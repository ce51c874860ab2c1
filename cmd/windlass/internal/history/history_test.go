package history

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/statemachine"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// script writes a history. Each call of at is one revision.
type script struct {
	revision broker.Revision
	events   []broker.Event
	created  map[string]broker.Revision
}

// write is one key of a revision; del deletes one.
type write struct {
	key, value string
	session    broker.SessionID
	del        bool
}

func put(key, value string) write { return write{key: key, value: value} }
func del(key string) write        { return write{key: key, del: true} }
func owner(task string, session broker.SessionID) write {
	return write{key: "tasks/" + task + "/owner", value: `{"node":"n"}`, session: session}
}

// at commits writes as one revision.
func (s *script) at(writes ...write) broker.Revision {
	if s.created == nil {
		s.created = map[string]broker.Revision{}
	}
	s.revision++
	for _, w := range writes {
		key := "/h/" + w.key
		e := broker.Event{KV: broker.KV{Key: key, Modified: s.revision}, Deleted: w.del}
		if w.del {
			delete(s.created, key)
		} else {
			if s.created[key] == 0 {
				s.created[key] = s.revision
			}
			e.KV.Value, e.KV.Created, e.KV.Session = []byte(w.value), s.created[key], w.session
		}
		s.events = append(s.events, e)
	}
	return s.revision
}

// submitted submits task a. claimed also claims it and returns the token, becomes also
// writes some states, and ended also ends it, with more writes in the same revision.
func (s *script) submitted() { s.at(put("tasks/a", "")) }

func (s *script) claimed() broker.Revision {
	s.submitted()
	return s.at(owner("a", 1))
}

func (s *script) becomes(states ...string) {
	token := s.claimed()
	for _, name := range states {
		s.at(put("state/a", state(name, token)))
	}
}

func (s *script) ended(l *Log, as string, more ...write) {
	token := s.claimed()
	l.Ending("a", token)
	s.at(append([]write{put("state/a", state(as, token)), del("tasks/a"), del("tasks/a/owner")}, more...)...)
}

func state(name string, token broker.Revision) string {
	return fmt.Sprintf(`{"state":%q,"token":%d,"until":"2027-01-01T00:00:00Z"}`, name, token)
}

// stateAt returns a state with the time at which it was written.
func stateAt(name string, token broker.Revision, second int) string {
	return fmt.Sprintf(`{"state":%q,"token":%d,"until":"2027-01-01T00:00:00Z","changed_at":%q}`, name, token,
		time.Date(2026, 1, 1, 0, 0, second, 0, time.UTC).Format(time.RFC3339))
}

// checked applies a script and returns the violations.
func checked(t *testing.T, play func(s *script, l *Log)) (*Log, []string) {
	t.Helper()
	l, err := New("h")
	if err != nil {
		t.Fatal(err)
	}
	s := &script{}
	play(s, l)
	l.Apply(s.events)
	return l, l.Violations()
}

func TestLog_AcceptsACorrectHistory(t *testing.T) {
	l, wrong := checked(t, func(s *script, l *Log) {
		s.at(put("tasks/a", ""), put("tasks/a/props", "1"))
		s.at(put("tasks/a|b", ""))
		s.at(write{key: "nodes/n/info", session: 1})
		first := s.at(owner("a", 1))
		s.at(put("state/a", stateAt("sleeping", first, 1)))
		s.at(put("state/a", stateAt("runnable", first, 2)))
		s.at(del("tasks/a/owner"), del("nodes/n/info")) // its session expired
		second := s.at(owner("a", 2))
		l.Ending("a", second)
		s.at(put("state/a", state("completed", second)), del("tasks/a"), del("tasks/a/props"), del("tasks/a/owner"))
		third := s.at(owner("a|b", 2))
		l.Ending("a|b", third)
		s.at(del("tasks/a|b/owner"))
		s.at(put("tasks/a", ""), del("state/a")) // submitted again
		l.Deleting("a")
		s.at(del("tasks/a"))
	})
	if len(wrong) > 0 {
		t.Errorf("%q", wrong)
	}
	want := Counts{Revisions: 13, Events: 19, Submitted: 3, Grants: 3, HandOvers: 1, Completed: 1}
	if got := l.Counts(); got != want {
		t.Errorf("counted %+v, want %+v", got, want)
	}
	if exists, s := l.Task("a"); exists || s != "" || len(l.Live()) != 0 {
		t.Errorf("a exists: %t, as %q; live are %v", exists, s, l.Live())
	}
}

func TestLog_Z11_AFailureIsNotForgottenWhileATaskWaitsForIt(t *testing.T) {
	nothing := func(*Log) {}
	prune := []write{del("state/a"), del("tasks/a/failed")}
	for _, c := range []struct {
		name     string
		announce func(l *Log)
		then     []write
		wrong    bool
		ended    statemachine.State
	}{
		{"by the retention", nothing, prune, true, statemachine.Failed},
		{"by a client that unblocks", func(l *Log) { l.Unblocking("a") }, prune, false, statemachine.Failed},
		{"as it runs again", nothing, append([]write{put("tasks/a", "")}, prune...), false, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			l, wrong := checked(t, func(s *script, l *Log) {
				s.at(put("tasks/a|b", ""))
				s.ended(l, "failed", put("tasks/a/failed", `{"state":"failed"}`))
				l.Apply(s.events)
				s.events = nil
				time.Sleep(2 * forgetLate)
				c.announce(l)
				s.at(c.then...)
			})
			if c.wrong != (len(wrong) == 1) || c.wrong && !strings.Contains(wrong[0], `Z11: that "a" failed is forgotten while "a|b" waits`) {
				t.Errorf("%s: %q", c.name, wrong)
			}
			if got := l.Ended("a"); got != c.ended {
				t.Errorf("%s: it has ended as %q, want %q", c.name, got, c.ended)
			}
		})
	}
}

func TestLog_FindsEachViolation(t *testing.T) {
	for name, play := range map[string]func(s *script, l *Log){
		"I1 granted while live":    func(s *script, l *Log) { s.claimed(); s.at(del("x"), owner("a", 2)) },
		"I2 state without a claim": func(s *script, l *Log) { s.submitted(); s.at(put("state/a", state("sleeping", 2))) },
		"I2 state of an old claim": func(s *script, l *Log) {
			old := s.claimed()
			s.at(del("tasks/a/owner"))
			s.at(owner("a", 2))
			s.at(put("state/a", state("sleeping", old)))
		},
		"I2 an older save lands late": func(s *script, l *Log) {
			token := s.claimed()
			s.at(put("state/a", stateAt("runnable", token, 2)))
			s.at(put("state/a", stateAt("sleeping", token, 1)))
		},
		"I2 of a deleted task": func(s *script, l *Log) {
			token := s.claimed()
			l.Deleting("a")
			s.at(del("tasks/a"))
			s.submitted()
			s.at(put("state/a", state("sleeping", token)))
		},
		"I5 vanishes":                   func(s *script, l *Log) { s.submitted(); s.at(del("tasks/a")) },
		"I6 ended and granted":          func(s *script, l *Log) { s.ended(l, "completed"); s.claimed() },
		"I6 granted without existing":   func(s *script, l *Log) { s.at(owner("a", 1)) },
		"I6 completed twice":            func(s *script, l *Log) { s.becomes("completed", "completed") },
		"I7 paused becomes completed":   func(s *script, l *Log) { s.becomes("paused", "completed") },
		"I7 no state at all":            func(s *script, l *Log) { s.becomes("paused", "melted") },
		"I8 claimed while blocked":      func(s *script, l *Log) { s.submitted(); s.at(put("tasks/a|b", "")); s.at(owner("a|b", 1)) },
		"I8 claimed while it needs one": func(s *script, l *Log) { s.submitted(); s.at(put("tasks/c", `{"needs":["a"]}`)); s.at(owner("c", 1)) },
		"I12 released by nobody": func(s *script, l *Log) {
			s.at(write{key: "nodes/n/info", session: 1})
			s.claimed()
			s.at(del("tasks/a/owner"))
		},
		"Z11 granted after a failure": func(s *script, l *Log) {
			s.at(put("tasks/a/failed", `{"state":"failed"}`), put("tasks/a|b", ""))
			s.at(owner("a|b", 1))
		},
		"Z11 skipped and goes on": func(s *script, l *Log) {
			s.at(put("tasks/a/failed", `{"state":"failed","skip":true}`), put("tasks/a|b", ""))
			s.at(put("state/a|b", state("sleeping", s.at(owner("a|b", 1)))))
		},
		"Z11 skipped for nothing":   func(s *script, l *Log) { s.at(put("state/a", skipped(s.claimed()))) },
		"Z11 failed without a mark": func(s *script, l *Log) { s.ended(l, "failed") },
		"M55 an interruption is an error": func(s *script, l *Log) {
			s.at(put("state/a", fmt.Sprintf(`{"state":"runnable","token":%d,"errors":[{"error":"context canceled"}]}`, s.claimed())))
		},
		"I10 written by the second in line":    func(s *script, l *Log) { s.at(led(l, candidates(s))) },
		"I10 written without any candidate":    func(s *script, l *Log) { _ = candidates(s); s.at(del(foo), del(bar)); s.at(led(l, 1)) },
		"I10 written in the term before":       func(s *script, l *Log) { _ = candidates(s); s.at(del(foo)); s.at(led(l, 1)) },
		"I10 an entry gets to another session": func(s *script, l *Log) { _ = candidates(s); s.at(write{key: bar, session: 3}) },
		"M04 a name is taken over": func(s *script, l *Log) {
			s.at(write{key: "nodes/n/info", session: 1})
			s.at(write{key: "nodes/n/info", session: 2})
		},
	} {
		number, _, _ := strings.Cut(name, " ")
		if _, wrong := checked(t, play); len(wrong) == 0 || !strings.Contains(strings.Join(wrong, "\n"), " "+number+": ") {
			t.Errorf("%s: found %q", name, wrong)
		}
	}
}

// foo and bar are candidates of an election, in this order.
const foo, bar = "elections/e/foo", "elections/e/bar"

// candidates makes both join, and returns the token of the second.
func candidates(s *script) broker.Revision {
	s.at(write{key: foo, session: 1})
	return s.at(write{key: bar, session: 2})
}

// led returns a write of a leader in a term.
func led(l *Log, token broker.Revision) write {
	l.Term = func(kv broker.KV) (string, broker.Revision, bool) {
		var token broker.Revision
		n, _ := fmt.Sscan(string(kv.Value), &token)
		return "e", token, n == 1
	}
	return put("led/e", fmt.Sprint(token))
}

func TestLog_I10_TheFirstCandidateMayWrite(t *testing.T) {
	l, wrong := checked(t, func(s *script, l *Log) {
		second := candidates(s)
		s.at(led(l, 1))
		s.at(write{key: foo, value: "asked to resign", session: 1})
		s.at(led(l, 1))
		s.at(del(foo))
		s.at(led(l, second))
	})
	if len(wrong) > 0 || l.Counts().Led != 3 {
		t.Errorf("%q, %+v", wrong, l.Counts())
	}
}

func TestLog_Z06_Z11_ChecksTheBlockersWithoutAConditionWhenAHandlerBegins(t *testing.T) {
	for name, c := range map[string]struct {
		then func(s *script) // after the grant
		want string
	}{
		"pending":         {func(*script) {}, `I8: "t" runs while "b" exists`},
		"ended":           {func(s *script) { s.at(del("tasks/b")) }, ""},
		"failed":          {func(s *script) { s.at(put("tasks/b/failed", `{}`), del("tasks/b")) }, `Z11: "t" runs while "b", which failed`},
		"submitted again": {func(s *script) { s.at(del("tasks/b")); s.at(put("tasks/b", "")) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			l, wrong := checked(t, func(s *script, l *Log) {
				l.Conditions, l.Unannounced = 1, true
				s.at(put("tasks/b", ""))
				s.at(put("tasks/t", `{"needs":["a","b"]}`))
				s.at(owner("t", 1))
				c.then(s)
			})
			if len(wrong) > 0 {
				t.Fatal(wrong)
			}
			l.Begins("t", 3)
			l.Begins("t", 2) // no claim
			if got := strings.Join(l.Violations(), "; "); !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

func skipped(token broker.Revision) string {
	return fmt.Sprintf(`{"state":"killed","token":%d,"errors":[{"error":"skipped: a failed"}]}`, token)
}

func TestLog_ASkippedTaskMayBeClaimedToBeKilled(t *testing.T) {
	l, wrong := checked(t, func(s *script, l *Log) {
		s.at(put("tasks/a", `{"on_failure":"skip"}`))
		s.at(put("tasks/a|b", ""))
		s.at(put("tasks/a|b|c", ""))
		first := s.at(owner("a", 1))
		l.Ending("a", first)
		s.at(put("state/a", state("failed", first)), put("tasks/a/failed", `{"state":"failed","skip":true}`), del("tasks/a"), del("tasks/a/owner"))
		second := s.at(owner("a|b|c", 1))
		l.Ending("a|b|c", second)
		s.at(put("state/a|b|c", skipped(second)), put("tasks/a|b|c/failed", `{"state":"killed"}`), del("tasks/a|b|c"), del("tasks/a|b|c/owner"))
	})
	if len(wrong) > 0 || !l.Skipping("a|b|c", 6) || l.Skipping("a", 4) {
		t.Errorf("%q", wrong)
	}
	if got, want := l.Blockers("a|b"), []Blocker{{"a", false, true, true}}; !slices.Equal(got, want) {
		t.Errorf("it waits for %v, want %v", got, want)
	}
}

func TestLog_DoesNotCheckTheWritesOfAnOperator(t *testing.T) {
	_, wrong := checked(t, func(s *script, l *Log) {
		for _, key := range []string{"/h/tasks/a/owner", "/h/state/a", "/h/nodes/n/info"} {
			l.ByHand(key)
		}
		s.at(put("tasks/a", ""), write{key: "nodes/n/info", session: 1})
		s.at(owner("a", 1))
		s.at(del("tasks/a/owner"), put("state/a", "{"))
		s.at(put("nodes/n/info", "forged"))
	})
	if len(wrong) > 0 {
		t.Errorf("%q", wrong)
	}
}
