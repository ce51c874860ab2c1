package simulation

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// commands are those sent to nodes with a tag of their own, to see that they are
// carried out in order and once.
type commands struct {
	mu   sync.Mutex
	sent map[string]command
	done map[string][]string // by node, in order
	last int
}

// command was sent between two moments; an acknowledged one has a second.
type command struct {
	node         string
	sent, acked  time.Time
	acknowledged bool
}

// tagged returns a tag that names no task.
func (c *commands) tagged(node string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last++
	tag := fmt.Sprintf("tag-%d", c.last)
	if c.sent == nil {
		c.sent, c.done = map[string]command{}, map[string][]string{}
	}
	c.sent[tag] = command{node: node, sent: time.Now()}
	return tag
}

func (c *commands) acknowledged(tag string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.sent[tag]
	s.acked, s.acknowledged = time.Now(), true
	c.sent[tag] = s
}

// executed takes the error with which a node discards such a command.
func (c *commands) executed(node, text string) {
	_, rest, found := strings.Cut(text, `"tag-`)
	number, _, closed := strings.Cut(rest, `"`)
	if !found || !closed {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.done[node] = append(c.done[node], "tag-"+number)
}

// disorder says which commands were carried out twice, elsewhere, or before one
// that had been acknowledged when they were sent (I9).
func (c *commands) disorder() (wrong []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for node, tags := range c.done {
		seen := map[string]bool{}
		for i, tag := range tags {
			if seen[tag] || c.sent[tag].node != node {
				wrong = append(wrong, fmt.Sprintf("I9: node %s carried out %s, sent to %q, twice or for another", node, tag, c.sent[tag].node))
			}
			seen[tag] = true
			for _, earlier := range tags[:i] {
				if c.sent[tag].acknowledged && c.sent[tag].acked.Before(c.sent[earlier].sent) {
					wrong = append(wrong, fmt.Sprintf("I9: node %s carried out %s before %s, which was there first", node, earlier, tag))
				}
			}
		}
	}
	return wrong
}
