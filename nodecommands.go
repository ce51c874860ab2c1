package windlass

import (
	"fmt"
	"strings"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/events"
	"github.com/windlass-go/windlass/internal/nodecommand"
)

// runCommands carries out the waiting commands in order, one at a time.
func (in *incarnation) runCommands() {
	if in.stage != stageWorking {
		return
	}
	self := in.nodes.Get(in.config.Name)
	if self == nil {
		return
	}
	commands := self.Commands()
	if len(commands) == 0 && len(in.commandsDone) > commandsDoneMax {
		clear(in.commandsDone)
	}
	for _, waiting := range commands {
		if in.commandsDone[waiting.Key] {
			continue
		}
		in.commandsDone[waiting.Key] = true
		c, err := nodecommand.Parse(waiting.Value)
		if err == nil {
			err = in.runCommand(c)
		}
		in.events.Commanded(c.Command, err)
		in.out.commands.Put(waiting.Key, broker.Txn{Then: []broker.Op{broker.Delete(waiting.Key)}}, time.Time{})
	}
}

func (in *incarnation) runCommand(c nodecommand.Command) error {
	switch c.Command {
	case nodecommand.Freeze:
		in.setMode(true, in.info.Cordoned, in.info.Draining)
	case nodecommand.Unfreeze:
		in.node.draining.Store(false)
		in.setMode(false, in.info.Cordoned, false)
	case nodecommand.Balance:
		in.giving.Balance(events.TriggerCommand, time.Now())
	case nodecommand.StopTask:
		return in.stopTask(c)
	case nodecommand.Drain:
		return in.startDrain(c)
	default:
		return fmt.Errorf("unknown command; known are %s", strings.Join(nodecommand.Names, ", "))
	}
	return nil
}

func (in *incarnation) stopTask(c nodecommand.Command) error {
	id, err := c.Task()
	if err != nil {
		return err
	}
	h, here := in.heldBy(id)
	if !here {
		return fmt.Errorf("task %q does not run here", id)
	}
	if !h.Leaves {
		in.giving.Give(&h, time.Now())
	}
	return nil
}

func (in *incarnation) startDrain(c nodecommand.Command) error {
	perSecond, within, err := c.Pace()
	if err != nil {
		return err
	}
	if within > 0 {
		perSecond = int(float64(len(in.runs)+in.board.InFlight())/within.Seconds()) + 1
	}
	in.giving.Drain(perSecond, time.Now())
	in.node.draining.Store(true)
	in.setMode(in.info.Frozen, in.info.Cordoned, true)
	return nil
}

// drainStep gives back the next few tasks.
func (in *incarnation) drainStep(now time.Time) {
	if in.stage != stageWorking {
		return
	}
	if in.node.draining.Load() && !in.info.Draining {
		in.giving.Drain(nodecommand.DrainRateDefault, now)
		in.setMode(in.info.Frozen, in.info.Cordoned, true)
	}
	if in.info.Draining {
		in.giving.Drained(in.out.toldOthers(), now)
	}
}
