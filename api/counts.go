package api

import (
	"maps"
	"sync"

	"github.com/windlass-go/windlass"
)

// taskCounts counts the tasks by status, as the server follows them.
type taskCounts struct {
	mu       sync.Mutex
	byStatus map[windlass.Status]int // nil while the tasks are not followed
}

// begin starts with none.
func (c *taskCounts) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.byStatus = map[windlass.Status]int{}
	for _, s := range windlass.Statuses {
		c.byStatus[s] = 0
	}
}

// end forgets them: what is not followed is not known.
func (c *taskCounts) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.byStatus = nil
}

// change counts a task that was one thing and is another now; empty for nothing.
func (c *taskCounts) change(was, now windlass.Status) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if was != "" {
		c.byStatus[was]--
	}
	if now != "" {
		c.byStatus[now]++
	}
}

// TaskCounts counts the tasks of the namespace by status, without asking the
// broker. It is nil unless Run or Serve follow them; while these begin it has fewer.
func (s *Server) TaskCounts() map[windlass.Status]int {
	s.counts.mu.Lock()
	defer s.counts.mu.Unlock()
	return maps.Clone(s.counts.byStatus)
}
