package history

import (
	"strings"
	"testing"
)

const (
	markedState   = `{"state":"runnable","token":2,"newer":1}`
	markedHistory = `{"entries":[{"at":"2026-01-01T00:00:00Z","event":"claimed","token":2,"newer":1}]}`
)

func TestLog_M06_FindsLostDataOfANewerVersion(t *testing.T) {
	for name, c := range map[string]struct {
		lose write
		want string
	}{
		"a member of the state":    {put("state/a", strings.Replace(markedState, `,"newer":1`, "", 1)), "the state"},
		"a member of the history":  {put("history/a", strings.Replace(markedHistory, `,"newer":1`, "", 1)), "the entry"},
		"the key below the task":   {del("tasks/a/newer"), "/h/tasks/a/newer"},
		"nothing":                  {put("state/a", markedState), ""},
		"an entry, which is old":   {put("history/a", `{"entries":[]}`), ""},
		"an entry, for a better":   {put("history/a", strings.Replace(markedHistory, `"newer":1`, `"detail":"seen"`, 1)), ""},
		"a history with its state": {del("history/a"), ""},
	} {
		_, wrong := checked(t, func(s *script, _ *Log) {
			s.claimed()
			s.at(put("state/a", markedState), put("history/a", markedHistory), put("tasks/a/newer", ""))
			s.at(c.lose)
		})
		if all := strings.Join(wrong, "\n"); (c.want == "") != (all == "") || !strings.Contains(all, "M06: "+c.want) && all != "" {
			t.Errorf("%s is lost: found %q", name, wrong)
		}
	}
}
