package edit

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/coordinator"
	"github.com/windlass-go/windlass/internal/attempts"
	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/session"
	"github.com/windlass-go/windlass/statemachine"
)

// carryChunk limits the claims that are made with one session, so that they are ended in its time.
const carryChunk = 1000

// clientPrefix begins the name in which a client holds a task while it carries out a command.
const clientPrefix = "client-"

// Command is a command to a task that was sent.
type Command struct {
	ID string
	statemachine.Command
	// Revision is that of the command in the task's slot, zero if it was not sent.
	Revision broker.Revision
	// Done is set once it is carried out.
	Done bool
}

// CarryOut carries out the kills and pauses among some commands whose tasks nobody holds, and
// sets Done of them. Such a task may wait for others, for its time, or for a node of its
// type, and the command would wait with it. So the client claims the task for just that: a
// claim is granted only while the command is in the task's slot, and its end takes the
// command out. Whatever fails leaves the command for the next holder of the task.
func CarryOut(ctx context.Context, b broker.Broker, space keys.Space, rules *Rules, sent []Command) {
	for some := range slices.Chunk(sent, carryChunk) {
		carryOutSome(ctx, b, space, rules, some)
	}
}

func carryOutSome(ctx context.Context, b broker.Broker, space keys.Space, rules *Rules, sent []Command) {
	wanted, at := unheld(ctx, b, space, sent)
	if len(wanted) == 0 {
		return
	}
	incarnation, err := uuid.NewV7()
	if err != nil {
		return
	}
	granted, err := attempts.Grant(ctx, b, session.TTLDefault)
	if err != nil {
		return
	}
	defer attempts.Revoke(ctx, b, granted.ID) // with the claims that were not ended
	coord, err := coordinator.New(b, coordinator.Identity{
		Namespace: space.Root(), Node: clientPrefix + incarnation.String(), Session: granted.ID, Incarnation: incarnation.String(),
	})
	if err != nil {
		return // cannot be: the name is valid
	}
	var claims []carried
	var endings []coordinator.Ending
	var commands []*Command
	for n, r := range coord.Claim(ctx, wanted) {
		if command := &sent[at[n]]; r.Err == nil && r.Created != 0 {
			if c, ending, ok := endingFor(r.Granted, command, rules); ok {
				claims, endings, commands = append(claims, c), append(endings, ending), append(commands, command)
			}
		}
	}
	var records []coordinator.AuditRecord
	for n, ended := range attempts.EndAll(ctx, coord, endings) {
		if ended.Err == nil {
			commands[n].Done = true
			records = append(records, claims[n].history(commands[n].Command, ended.Requeued))
		}
	}
	coord.Audit(ctx, records) // nothing depends on it
}

// unheld returns claims for the commands that could be carried out, and their indexes.
func unheld(ctx context.Context, b broker.Broker, space keys.Space, sent []Command) (wanted []coordinator.Wanted, at []int) {
	var txns []broker.Txn
	var asked []int
	for i, s := range sent {
		if s.Revision != 0 && (s.Message == statemachine.Kill || s.Message == statemachine.Pause) {
			asked = append(asked, i)
			txns = append(txns, broker.Txn{Then: []broker.Op{
				broker.Read(space.Task(s.ID)), broker.Read(space.Props(s.ID)), broker.Read(space.Owner(s.ID)),
			}})
		}
	}
	for n, r := range b.Commit(ctx, txns...) {
		i := asked[n]
		if r.Err != nil || r.Reads[2] != nil {
			continue
		}
		w := coordinator.Wanted{Ref: coordinator.Ref{ID: sent[i].ID}, Command: sent[i].Revision}
		switch {
		case r.Reads[0] != nil:
			w.Created = r.Reads[0].Created
		case r.Reads[1] != nil:
			w.Created, w.PropsOnly = r.Reads[1].Created, true
		default:
			continue
		}
		wanted, at = append(wanted, w), append(at, i)
	}
	return wanted, at
}

// carried is a claim that only carries out a command.
type carried struct {
	coordinator.Granted
	// state is that of the task after the command.
	state statemachine.State
}

// endingFor returns the ending of a claim that carries out a command, and false if the
// task's state does not accept it or cannot be read.
func endingFor(g coordinator.Granted, command *Command, rules *Rules) (c carried, e coordinator.Ending, ok bool) {
	record, err := statemachine.Parse(g.State)
	if err != nil {
		return c, e, false
	}
	next, err := statemachine.Next(record.State, command.Message)
	if err != nil {
		return c, e, false
	}
	record.State, record.Until, record.TypePaused, record.Command = next, nil, false, int64(command.Revision)
	kind := coordinator.Release
	if next.Terminal() {
		kind = coordinator.Done
	}
	e = g.Ending(kind)
	e.Command, e.Unrecorded = command.Revision, true
	err = rules.Store(g.Spec, &e, record, g.Props)
	return carried{Granted: g, state: next}, e, err == nil
}

// history returns what the history of a task says of a command that was carried out.
func (c *carried) history(command statemachine.Command, requeued bool) coordinator.AuditRecord {
	now := time.Now().UTC()
	events := []statemachine.HistoryEntry{
		{Event: statemachine.EventCommand, Detail: CommandDetail(command)},
		{Event: statemachine.Event(c.state)},
	}
	switch {
	case requeued:
		events[1] = statemachine.HistoryEntry{Event: statemachine.EventRequeued, Detail: statemachine.DetailRequeued}
	case !c.state.Terminal():
		events = append(events, statemachine.HistoryEntry{Event: statemachine.EventReleased, Detail: "nobody worked on it"})
	}
	for i := range events {
		events[i].At, events[i].Token = now, int64(c.Token)
	}
	return coordinator.AuditRecord{ID: c.ID, Token: c.Token, History: events}
}

// CommandDetail says in a history what was commanded, and by whom.
func CommandDetail(c statemachine.Command) string {
	if c.By != "" {
		return string(c.Message) + ", by " + c.By
	}
	return string(c.Message)
}
