package simulation

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
)

// commands has the commands sent to nodes with a tag of their own, to check that they
// are carried out once, and in order.
type commands struct {
	// now reads the counter that orders events.
	now func() int64

	mu   sync.Mutex
	sent map[string]*command
	done map[string][]string // tags by node, in the order of execution
	last int
}

// command has the readings of the counter at which a command was sent, acknowledged and
// carried out; zero for never.
type command struct {
	node                string
	sent, acked, ranAt  int64
	ranTwice, elsewhere bool
}

// tagged returns a new tag, which names no task.
func (c *commands) tagged(node string) string {
	at := c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last++
	tag := fmt.Sprintf("tag-%d", c.last)
	c.sent[tag] = &command{node: node, sent: at}
	return tag
}

func (c *commands) acknowledged(tag string) {
	at := c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent[tag].acked = at
}

// executed records that a node has carried out a command, given the error with which it
// discards such a command.
func (c *commands) executed(node, text string) {
	_, rest, found := strings.Cut(text, `"tag-`)
	number, _, closed := strings.Cut(rest, `"`)
	if !found || !closed {
		return
	}
	at := c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	tag := "tag-" + number
	s := c.sent[tag]
	s.ranTwice = s.ranTwice || s.ranAt != 0
	s.elsewhere = s.elsewhere || s.node != node
	s.ranAt = at
	c.done[node] = append(c.done[node], tag)
}

// queued and ran are the operations on a node's queue.
type queued struct{ tag string }
type ran struct{ tag string }

// queueModel is a queue: its tags, each followed by a space.
var queueModel = porcupine.Model{
	Init: func() any { return "" },
	Step: func(state, input, _ any) (bool, any) {
		queue := state.(string)
		if in, ok := input.(queued); ok {
			return true, queue + in.tag + " "
		}
		rest, ok := strings.CutPrefix(queue, input.(ran).tag+" ")
		return ok, rest
	},
}

// disorder reports the commands that were carried out twice or elsewhere, and the nodes
// that did not carry them out in order (I9). Commands that were not carried out were
// deleted with their node's session.
func (c *commands) disorder(limit time.Duration) (wrong []string) {
	for tag, s := range c.sent {
		if s.ranTwice || s.elsewhere {
			wrong = append(wrong, fmt.Sprintf("I9: %s, sent to node %s, ran twice (%t) or elsewhere (%t)", tag, s.node, s.ranTwice, s.elsewhere))
		}
	}
	if len(wrong) > 0 {
		slices.Sort(wrong)
		return wrong
	}
	for node, tags := range c.done {
		var history []porcupine.Operation
		for _, tag := range tags {
			s := c.sent[tag]
			history = append(history,
				porcupine.Operation{Input: queued{tag}, Call: s.sent, Return: cmp.Or(s.acked, math.MaxInt64)},
				porcupine.Operation{Input: ran{tag}, Call: s.ranAt, Return: s.ranAt})
		}
		if porcupine.CheckOperationsTimeout(queueModel, history, limit) == porcupine.Illegal {
			wrong = append(wrong, fmt.Sprintf("I9: node %s carried its commands out in the order %v, which is not that of their sending", node, tags))
		}
	}
	return wrong
}
