package tree

import (
	"encoding/json"
	"testing"

	"github.com/windlass-go/windlass"
)

func TestJobInfo_Z09_EachStatusIsPendingWorkingOrEndedAndNeverTwo(t *testing.T) {
	type is struct{ pending, working, completed, ended bool }
	want := map[windlass.Status]is{
		"":                       {},
		windlass.StatusPending:   {pending: true},
		windlass.StatusBlocked:   {pending: true},
		windlass.StatusRunning:   {working: true},
		windlass.StatusSleeping:  {working: true},
		windlass.StatusPaused:    {working: true},
		windlass.StatusFault:     {working: true},
		windlass.StatusCompleted: {completed: true, ended: true},
		windlass.StatusFailed:    {ended: true},
		windlass.StatusKilled:    {ended: true},
	}
	if (JobInfo{Status: windlass.StatusSleeping}).Working() {
		t.Error("one that sleeps is worked on although nobody holds it")
	}
	for _, s := range append(windlass.Statuses, "") {
		j := JobInfo{Status: s}
		if want[s].working || s == windlass.StatusCompleted {
			j.Node = "n" // who holds it, or held it last
		}
		if got := (is{j.Pending(), j.Working(), j.Completed(), j.Ended()}); got != want[s] {
			t.Errorf("%q is %+v, want %+v", s, got, want[s])
		}
	}
}

func TestJobInfo_Z09_ItsJSONIsStable(t *testing.T) {
	for _, c := range []struct {
		job  JobInfo
		want string
	}{
		{
			job("a_t/b_u", windlass.StatusPending),
			`{"path":"a_t/b_u","id":"a_t|b_u","name":"b","type":"u","parent":"a_t","data":null,"status":"pending","node":"",` +
				`"token":0,"priority":0,"queued_at":null,"claimed_at":null,"finished_at":null,"needs":[],"blocked_by":[],"errors":[]}`,
		},
		{
			job("a_t", windlass.StatusFailed, on("n1"), ran(1, 2), errored("no"), needs("x"), blockedBy("y"), because("z"), func(j *JobInfo) {
				j.Data, j.Token, j.Priority = json.RawMessage(`{"k":1}`), 7, 3
				j.QueuedAt, j.Until = after(0), after(9)
			}),
			`{"path":"a_t","id":"a_t","name":"a","type":"t","parent":"","data":{"k":1},"status":"failed","node":"n1","token":7,` +
				`"priority":3,"queued_at":"2026-03-01T12:00:00Z","claimed_at":"2026-03-01T12:00:01Z","finished_at":"2026-03-01T12:00:02Z",` +
				`"needs":["x"],"blocked_by":["y"],"errors":[{"timestamp":"2026-03-01T12:00:00Z","error":"no"}],` +
				`"until":"2026-03-01T12:00:09Z","reason":"z"}`,
		},
	} {
		kept, _ := NewForest([]JobInfo{c.job}).Get(c.job.Path)
		got, err := json.Marshal(kept)
		if err != nil || string(got) != c.want {
			t.Errorf("it is\n%s, want\n%s (%v)", got, c.want, err)
		}
	}
}
