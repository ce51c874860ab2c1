package windlass

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/internal/mirror"
	"github.com/windlass-go/windlass/internal/pause"
	"github.com/windlass-go/windlass/internal/schedule"
	"github.com/windlass-go/windlass/internal/shorten"
	"github.com/windlass-go/windlass/internal/stored"
	"github.com/windlass-go/windlass/session"
)

// The commands to a node.
const (
	// CommandFreeze: claim nothing, rebalance nothing, keep what runs.
	CommandFreeze = "freeze"
	// CommandUnfreeze: the reverse of freeze, and of Node.Drain.
	CommandUnfreeze = "unfreeze"
	// CommandBalance: rebalance at once, even when frozen.
	CommandBalance = "balance"
	// CommandStopTask: release one running task, {"task": ID}, even when frozen.
	CommandStopTask = "stop_task"
	// CommandDrain: release everything at a pace, {"per_second": N}, or within a time,
	// {"within": "1m"}. Sending it also cordons the node; Client.Uncordon is the reverse
	// of both.
	CommandDrain = "drain"
)

// Cordon keeps a node, by its name, from getting tasks: also after a restart, and while
// it is away. It keeps the tasks that it has.
type Cordon struct {
	At time.Time `json:"at"`
	// Reason is for people, and By is who cordoned it (WithCaller).
	Reason string `json:"reason,omitempty"`
	By     string `json:"by,omitempty"`
}

// note says who made it and why, empty if that is not known or c is nil.
func (c *Cordon) note() string {
	switch {
	case c == nil || c.By == "" && c.Reason == "":
		return ""
	case c.Reason == "":
		return " (by " + c.By + ")"
	case c.By == "":
		return " (" + c.Reason + ")"
	}
	return " (by " + c.By + ": " + c.Reason + ")"
}

// CordonReasonBytesMax is the maximum length of Cordon.Reason.
const CordonReasonBytesMax = 1024

// Cordon cordons a node, which need not be there, or gives its cordon another reason. It
// returns whether the node is there.
func (c *Client) Cordon(ctx context.Context, node, reason string) (there bool, err error) {
	if err := checkReason(reason); err != nil {
		return false, err
	}
	return c.changeCordon(ctx, "cordon", node, putReason(ctx, c.space.NodeCordon(node), reason))
}

func checkReason(reason string) error {
	if len(reason) > CordonReasonBytesMax || !utf8.ValidString(reason) {
		return badInput("reason", shorten.To(reason, 80), fmt.Sprintf("must be valid UTF-8 of at most %d bytes", CordonReasonBytesMax))
	}
	return nil
}

// putReason writes a cordon, or the pause of a type.
func putReason(ctx context.Context, key, reason string) broker.Op {
	value, err := json.Marshal(Cordon{At: time.Now().UTC(), Reason: reason, By: callerOf(ctx)})
	if err != nil {
		value = nil // cannot be; it counts all the same
	}
	return broker.Put(key, value)
}

// Uncordon removes a cordon, and ends the drain of a node that is there. It returns
// ErrNotFound if there is no cordon.
func (c *Client) Uncordon(ctx context.Context, node string) error {
	_, err := c.changeCordon(ctx, "uncordon", node, broker.Delete(c.space.NodeCordon(node)))
	return err
}

// changeCordon writes or deletes a cordon.
func (c *Client) changeCordon(ctx context.Context, what, node string, op broker.Op) (there bool, err error) {
	if err := keys.CheckNodeName(node); err != nil {
		return false, badName(err)
	}
	info, err := c.change(ctx, op, c.space.NodeCordonAttempt(node), c.space.NodeInfo(node))
	if err != nil {
		return false, fmt.Errorf("%s node %q: cordon: %w", what, node, err)
	}
	return info != nil, nil
}

// change writes or deletes a key, which must be as it was read, and reads another one.
// Each attempt also needs a session that ends with the call, so that one which arrives
// later does not undo a later change; attempt is the key that it is for. The error is
// ErrNotFound if there is nothing to delete.
func (c *Client) change(ctx context.Context, op broker.Op, attempt, besides string) (read *broker.KV, err error) {
	if err := c.checkLayout(ctx); err != nil {
		return nil, err
	}
	attempts, err := c.grant(ctx, session.TTLMin)
	if err != nil {
		return nil, err
	}
	defer c.revoke(ctx, attempts.ID)
	alive := broker.PutSession(attempt, nil, attempts.ID)
	maybeDeleted := false // by an attempt whose answer was lost
	for range attemptsMax {
		kv, err := c.broker.Get(ctx, op.Key)
		unchanged := broker.Modified(op.Key, kv.Modified)
		switch {
		case errors.Is(err, broker.ErrNotFound) && op.Kind == broker.OpDelete && maybeDeleted:
			return nil, nil
		case errors.Is(err, broker.ErrNotFound) && op.Kind == broker.OpDelete:
			return nil, ErrNotFound
		case errors.Is(err, broker.ErrNotFound):
			unchanged = broker.Absent(op.Key)
		case err != nil:
			return nil, err
		}
		r, maybe, err := c.persist(ctx, broker.Txn{If: []broker.Cond{unchanged}, Then: []broker.Op{op, alive, broker.Read(besides)}})
		if err != nil {
			return nil, err
		}
		if r.OK {
			return r.Reads[0], nil
		}
		maybeDeleted = maybeDeleted || maybe // if not, another change refused it
	}
	return nil, errors.New("it changes too often")
}

// persist commits a transaction that can take effect only once, and retries while its
// outcome is unknown. maybe is true if an attempt before the last one may have been
// applied.
func (c *Client) persist(ctx context.Context, txn broker.Txn) (r broker.Result, maybe bool, err error) {
	for attempt := 1; ; attempt++ {
		r, err = broker.CommitOne(ctx, c.broker, txn)
		if err == nil || !broker.MaybeApplied(err) || !pauseAfter(ctx, err, attempt) {
			return r, maybe, err
		}
		maybe = true
	}
}

// Limits of retries while an outcome is unknown.
const (
	attemptsMax  = 5
	attemptPause = 100 * time.Millisecond
)

// grant grants a session, and tries again while the outcome is unknown: a session that nobody
// knows of runs out by itself.
func (c *Client) grant(ctx context.Context, ttl time.Duration) (granted broker.Session, err error) {
	for attempt := 1; ; attempt++ {
		granted, err = c.broker.Grant(ctx, "", ttl)
		if err == nil || !broker.MaybeApplied(err) || !pauseAfter(ctx, err, attempt) {
			return granted, err
		}
	}
}

// revokeMax limits how long a caller that is done waits for the end of its session,
// which would otherwise expire.
const revokeMax = 5 * time.Second

func (c *Client) revoke(ctx context.Context, id broker.SessionID) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), revokeMax)
	defer cancel()
	_ = c.broker.Revoke(ctx, id) // it runs out by itself
}

// pauseAfter pauses before a retry. It returns false if there should be none.
func pauseAfter(ctx context.Context, err error, attempt int) bool {
	if attempt >= attemptsMax || ctx.Err() != nil || !broker.MaybeApplied(err) && !broker.Temporary(err) {
		return false
	}
	pause.For(ctx, time.Duration(attempt)*attemptPause)
	return true
}

// Cordons returns the cordons of all nodes, by node, those that are away included.
func (c *Client) Cordons(ctx context.Context) (map[string]Cordon, error) {
	nodes, err := listNodes(ctx, c.broker, c.space)
	if err != nil {
		return nil, fmt.Errorf("list cordons: %w", err)
	}
	cordons := map[string]Cordon{}
	for _, n := range nodes.Cordoned() {
		cordons[n.Name] = *cordonOf(n)
	}
	return cordons, nil
}

// cordonOf reads a node's cordon, nil if it has none. An unreadable one is a cordon.
func cordonOf(n *mirror.Node) *Cordon {
	if !n.Cordoned {
		return nil
	}
	return readReason(n.Cordon)
}

func readReason(value []byte) *Cordon {
	var c Cordon
	if err := json.Unmarshal(value, &c); err != nil {
		c = Cordon{Reason: "unreadable: " + shorten.To(string(value), 80)}
	}
	return &c
}

// checkCordon follows the node's own cordon. Its end also ends a drain.
func (in *incarnation) checkCordon() {
	if in.closing || in.lost || in.nodes.Revision() == 0 {
		return
	}
	n := in.nodes.Get(in.config.Name)
	cordoned := n != nil && n.Cordoned
	if cordoned == in.info.Cordoned {
		return
	}
	if !cordoned {
		in.node.draining.Store(false)
	}
	in.setMode(in.info.Frozen, cordoned, in.info.Draining && cordoned)
}

// Command is the value of nodes/<node>/commands/<id>.
type Command struct {
	Command    string          `json:"command"`
	Parameters json.RawMessage `json:"parameters,omitempty"`
}

// parseCommand parses a command: JSON, or the plain name used in the oldest layout.
func parseCommand(value []byte) (Command, error) {
	text := strings.TrimSpace(string(value))
	if !strings.HasPrefix(text, "{") {
		return Command{Command: text}, nil
	}
	var c Command
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return Command{Command: shorten.To(text, 80)}, fmt.Errorf("malformed: %w", err)
	}
	return c, nil
}

// runCommands carries out the waiting commands in order, one at a time.
func (in *incarnation) runCommands() {
	if in.closing || in.lost {
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
		c, err := parseCommand(waiting.Value)
		if err == nil {
			err = in.runCommand(c)
		}
		in.events.Commanded(c.Command, err)
		in.out.commands.Put(waiting.Key, broker.Txn{Then: []broker.Op{broker.Delete(waiting.Key)}}, time.Time{})
	}
}

func (in *incarnation) runCommand(c Command) error {
	switch c.Command {
	case CommandFreeze:
		in.setMode(true, in.info.Cordoned, in.info.Draining)
	case CommandUnfreeze:
		in.node.draining.Store(false)
		in.setMode(false, in.info.Cordoned, false)
	case CommandBalance:
		in.giving.Balance(schedule.TriggerCommand, time.Now())
	case CommandStopTask:
		return in.stopTask(c.Parameters)
	case CommandDrain:
		return in.startDrain(c.Parameters)
	default:
		return fmt.Errorf("unknown command; known are %s", strings.Join(nodeCommands, ", "))
	}
	return nil
}

var nodeCommands = []string{CommandFreeze, CommandUnfreeze, CommandBalance, CommandStopTask, CommandDrain}

// decodeParameters parses a command's parameters strictly: a misspelt one must not
// silently do something else.
func decodeParameters(raw json.RawMessage, into any) error {
	if len(raw) == 0 {
		return nil
	}
	if fault := stored.Check(raw, into, stored.Bounds{}); fault != nil {
		return badInput("parameters", string(raw), fault.Error())
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return badInput("parameters", string(raw), err.Error())
	}
	return nil
}

// checkCommand refuses a command that every node would discard.
func checkCommand(c Command) error {
	if !slices.Contains(nodeCommands, c.Command) {
		return badInput("command", c.Command, "must be one of "+strings.Join(nodeCommands, ", "))
	}
	switch c.Command {
	case CommandStopTask:
		_, err := stopTaskParameters(c.Parameters)
		return err
	case CommandDrain:
		_, _, err := drainParameters(c.Parameters)
		return err
	}
	return decodeParameters(c.Parameters, &struct{}{})
}

func stopTaskParameters(raw json.RawMessage) (string, error) {
	var p struct {
		Task string `json:"task"`
	}
	if err := decodeParameters(raw, &p); err != nil {
		return "", err
	}
	if p.Task == "" {
		return "", badInput("parameters", string(raw), `must be {"task": ID}`)
	}
	return p.Task, nil
}

// drainParameters returns the pace of a drain; within takes precedence if it is not
// zero.
func drainParameters(raw json.RawMessage) (perSecond int, within time.Duration, err error) {
	p := struct {
		PerSecond int    `json:"per_second"`
		Within    string `json:"within"`
	}{PerSecond: drainRateDefault}
	if err := decodeParameters(raw, &p); err != nil {
		return 0, 0, err
	}
	if p.PerSecond < 1 || p.PerSecond > drainRateMax {
		return 0, 0, badInput("per_second", p.PerSecond, fmt.Sprintf("must be from 1 to %d", drainRateMax))
	}
	if p.Within == "" {
		return p.PerSecond, 0, nil
	}
	within, err = time.ParseDuration(p.Within)
	if err != nil || within < drainTick || within > drainWithinMax {
		return 0, 0, badInput("within", p.Within, fmt.Sprintf("must be a duration from %v to %v", drainTick, drainWithinMax))
	}
	return p.PerSecond, within, nil
}

func (in *incarnation) stopTask(raw json.RawMessage) error {
	id, err := stopTaskParameters(raw)
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

func (in *incarnation) startDrain(raw json.RawMessage) error {
	perSecond, within, err := drainParameters(raw)
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
	if in.closing || in.lost {
		return
	}
	if in.node.draining.Load() && !in.info.Draining {
		in.giving.Drain(drainRateDefault, now)
		in.setMode(in.info.Frozen, in.info.Cordoned, true)
	}
	if in.info.Draining {
		in.giving.Drained(in.toldOthers(), now)
	}
}

// toldOthers reports whether the node's current registration was published. In the
// plans of other nodes, a task that is given away before would be assigned to this
// node.
func (in *incarnation) toldOthers() bool { return in.out.info.Empty() }

// setMode changes and publishes what the node claims.
func (in *incarnation) setMode(frozen, cordoned, draining bool) {
	if in.info.Frozen == frozen && in.info.Cordoned == cordoned && in.info.Draining == draining {
		return
	}
	in.info.Frozen, in.info.Cordoned, in.info.Draining = frozen, cordoned, draining
	in.out.publishInfo()
	if !draining {
		in.giving.EndDrain() // or the loop would be woken for it again and again
		in.stay()
	}
	in.node.mu.Lock()
	in.node.frozen = frozen
	in.node.mu.Unlock()
	if in.frozenOrLeaving() {
		in.dropQueued()
		return
	}
	in.board.Reconsider()
}

// publication returns a call that publishes the node's registration.
func (in *incarnation) publication(ctx context.Context) (call func() func()) {
	key, value := in.node.space.NodeInfo(in.config.Name), in.info.encode()
	txn := broker.Txn{
		If:   []broker.Cond{broker.Modified(key, in.out.published)},
		Then: []broker.Op{broker.PutSession(key, value, in.session.ID())},
		Else: []broker.Op{broker.Read(key)},
	}
	if in.closing && in.info.Returning {
		txn.Then = append(txn.Then, in.promise(in.config.Name, value, in.config.ReturnWithin))
	}
	listed := in.nodes.Revision() > 0
	return func() func() {
		r, err := broker.CommitOne(ctx, in.config.Broker, txn)
		return func() { in.infoPublished(r, err, listed) }
	}
}

// infoPublished handles the result of publishing the registration. listed is true if
// the nodes had been listed when the call began.
func (in *incarnation) infoPublished(r broker.Result, err error, listed bool) {
	switch {
	case err != nil:
		in.events.BrokerTrouble(fmt.Errorf("publish node info: %w", err))
		if (broker.Temporary(err) || errors.Is(err, broker.ErrPermission)) && !in.closing {
			in.out.publishInfo()
			in.out.info.Pause(time.Now().Add(retryEnd)) // rights are given back, too
		}
	case r.OK:
		if in.out.published = r.Revision; listed {
			in.fleet.Published(r.Revision)
		}
	case r.Reads[0] != nil && r.Reads[0].Session == in.session.ID():
		// An attempt whose outcome was unknown was applied after all.
		in.out.published = r.Reads[0].Modified
		in.out.publishInfo()
	}
}

// holderTTL returns the TTL in a node's registration, or the longest TTL possible.
func holderTTL(info []byte) time.Duration {
	var i NodeInfo
	if json.Unmarshal(info, &i) == nil {
		if ttl, err := time.ParseDuration(i.SessionTTL); err == nil && ttl > 0 {
			return ttl
		}
	}
	return session.TTLMax
}
