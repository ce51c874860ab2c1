package doctor_test

import (
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/cmd/windlass/internal/doctor"
)

// Two tasks of g on a, and two of h on b.
func TestDoctor_O08_NamesAGroupThatIsNotSpread(t *testing.T) {
	for name, test := range map[string]struct {
		age    time.Duration // of the nodes
		change func(id string, s *windlass.Spec)
		status doctor.Status
		words  []string
	}{
		"they could be exchanged":       {time.Hour, nil, doctor.Warning, []string{"g (a 2)", "h (b 2)"}},
		"a node has just joined":        {30 * time.Second, nil, doctor.OK, nil},
		"each must be where it is":      {time.Hour, func(_ string, s *windlass.Spec) { s.Node = map[string]string{"g": "a", "h": "b"}[s.Group] }, doctor.OK, nil},
		"each is the only of its group": {time.Hour, func(id string, s *windlass.Spec) { s.Group = id }, doctor.OK, nil},
	} {
		t.Run(name, func(t *testing.T) {
			inMemory(t, func(w *world) {
				for group, node := range map[string]string{"g": "a", "h": "b"} {
					id := w.node(node, func(i *windlass.NodeInfo) { i.StartedAt = time.Now().Add(-test.age) })
					for _, task := range []string{group + "1", group + "2"} {
						w.task(task, func(s *windlass.Spec) {
							s.Group = group
							if test.change != nil {
								test.change(task, s)
							}
						})
						w.claim(task, node, id)
					}
				}
				w.expect(doctor.CheckTasks, test.status, test.words...)
			})
		})
	}
}
