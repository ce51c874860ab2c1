package simulation

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
)

// commands are those sent to nodes with a tag of their own, to see that they are
// carried out once, and in order.
type commands struct {
	// now reads the counter that orders what happens.
	now func() int64

	mu   sync.Mutex
	sent map[string]*command
	done map[string][]string // tags by node, in the order of execution
	last int
}

// command is one of them, between the readings of the counter at which it was
// sent, acknowledged and carried out; zero for what did not happen.
type command struct {
	node                string
	sent, acked, ranAt  int64
	ranTwice, elsewhere bool
}

// tagged returns a tag that names no task.
func (c *commands) tagged(node string) string {
	at := c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last++
	tag := fmt.Sprintf("tag-%d", c.last)
	if c.sent == nil {
		c.sent, c.done = map[string]*command{}, map[string][]string{}
	}
	c.sent[tag] = &command{node: node, sent: at}
	return tag
}

func (c *commands) acknowledged(tag string) {
	at := c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent[tag].acked = at
}

// executed takes the error with which a node discards such a command.
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

// queueModel is a queue, as the tags in it, each with a space after it.
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

// disorder says which commands were carried out twice or elsewhere, and which
// nodes' queues were none (I9). Commands that were not carried out went with
// their node's session.
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
			acked := s.acked
			if acked == 0 {
				acked = math.MaxInt64 // nobody was told when it was there
			}
			history = append(history,
				porcupine.Operation{Input: queued{tag}, Call: s.sent, Return: acked},
				porcupine.Operation{Input: ran{tag}, Call: s.ranAt, Return: s.ranAt})
		}
		if porcupine.CheckOperationsTimeout(queueModel, history, limit) == porcupine.Illegal {
			wrong = append(wrong, fmt.Sprintf("I9: node %s carried its commands out in the order %v, which is not that of their sending", node, tags))
		}
	}
	return wrong
}
