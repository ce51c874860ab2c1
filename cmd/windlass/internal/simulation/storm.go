package simulation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker/faulty"
	"github.com/windlass-go/windlass/operate"
)

// event is something that can happen in a storm. do returns false if it cannot happen
// now.
type event struct {
	name   string
	weight int
	do     func(w *world) bool
}

// dangers are the events of every storm, with their weights.
var dangers = []event{
	{"node killed", 4, func(w *world) bool { return w.onNode((*process).Kill, true) }},
	{"node stopped", 3, func(w *world) bool { return w.stopNode() }},
	{"node started", 8, func(w *world) bool { return w.startNode() }},
	{"node suspended", 3, func(w *world) bool { return w.onNode((*process).suspend, false) }},
	{"network silent", 3, func(w *world) bool { return w.onNode(func(p *process) { p.Freeze() }, false) }},
	{"network refusing", 4, func(w *world) bool { return w.onNode(func(p *process) { p.Partition() }, false) }},
	{"clock leapt", 1, func(w *world) bool {
		return w.onNode(func(p *process) { p.leap(upTo(w.random, 2*w.profile.ttl)) }, false)
	}},
	{"machine stopped by its host", 2, func(w *world) bool { p := w.someNode(); return p != nil && w.stopMachine(p) }},
	{"", 10, func(w *world) bool { return w.onNode((*process).mend, false) }},
	{"", 14, func(w *world) bool { return w.onNode(func(p *process) { w.trouble(p.Faults()) }, false) }},
	{"", 3, func(w *world) bool { w.trouble(w.troubled); return true }},
	{"", 14, func(w *world) bool { w.submit(1 + w.random.IntN(6)); return true }},
	{"", 5, func(w *world) bool { return w.delete() }},
	{"", 2, func(w *world) bool { return w.rerun() }},
	{"", 2, func(w *world) bool { return w.resubmit() }},
	{"", 4, func(w *world) bool { return w.command() }},
	{"node cordoned, or no longer", 4, func(w *world) bool { return w.cordon() }},
	{"history compacted", 2, func(w *world) bool { return w.compact() }},
	{"corrupt value", 2, func(w *world) bool { return w.corruptValue() }},
	{"store restarted", 1, func(w *world) bool { return w.profile.restarts && w.restartStore() }},
	{"session revoked by hand", 1, func(w *world) bool { return w.profile.byHand && w.revokeSession() }},
	{"owner key deleted by hand", 3, func(w *world) bool { return w.profile.byHand && w.deleteOwner() }},
	{"owner key written by hand", 1, func(w *world) bool { return w.profile.byHand && w.forgeOwner() }},
	{"registration deleted by hand", 1, func(w *world) bool { return w.profile.byHand && w.deleteRegistration() }},
	{"leader frozen until another led", 3, func(w *world) bool { return w.freezeLeader() }},
	{"restart storm", 1, func(w *world) bool { return w.restartStorm() }},
	{"slow network that falls silent", 3, func(w *world) bool { return w.onNode(w.fallSilent, false) }},
	{"deletion that comes again late", 2, func(w *world) bool { return w.deleteTwice() }},
	{"task replaced while its node is cut off", 2, func(w *world) bool { return w.onNode(w.replaceTasks, false) }},
	{"name taken up again while the store restarts", 1, func(w *world) bool { return w.profile.restarts && w.reclaimName() }},
	{"task replaced while its claim is on the way", 1, func(w *world) bool { return w.replaceOnTheWay() }},
	{"owner keys deleted by hand while endings are lost", 2, func(w *world) bool { return w.profile.byHand && w.onNode(w.robNode, false) }},
}

var eventsWeight = func() (sum int) {
	for _, e := range dangers {
		sum += e.weight
	}
	return sum
}()

// happen does one thing at random.
func (w *world) happen() {
	n := w.random.IntN(eventsWeight)
	for _, e := range dangers {
		if n -= e.weight; n < 0 {
			if e.do(w) && e.name != "" {
				w.count(e.name)
			}
			return
		}
	}
}

// someNode draws a node that is up, nil if there is none.
func (w *world) someNode() *process {
	if len(w.up) == 0 {
		return nil
	}
	return w.up[w.random.IntN(len(w.up))]
}

// onNode does something to a node that is up. fatal is true if that ends the node.
func (w *world) onNode(do func(*process), fatal bool) bool {
	p := w.someNode()
	if p == nil {
		return false
	}
	do(p)
	if fatal {
		w.removeUp(p)
	}
	return true
}

// fallSilent makes a node's renewals as slow as is still in time, and then cuts it off
// silently: a deadline that counts from the replies would be too late.
func (w *world) fallSilent(p *process) {
	w.use(p.Faults(), fmt.Sprintf("delay-reply %v on keepalive", p.timing.Try*19/20))
	w.sleep(2 * p.timing.Renew)
	p.Freeze()
}

// starve keeps a node from claiming until the others have taken more than their share,
// and then lets it.
func (w *world) starve(p *process) {
	w.use(p.Faults(), `lose-request 1s on commit below "/test/tasks/"`)
	w.submit(10)
	w.sleep(15 * time.Second)
	w.harvest(p.Faults())
	p.Faults().Use(nil)
}

// reclaimName starts a node under the name of one that was just killed. The store
// prolongs the old session twice while the new node waits for it to expire.
func (w *world) reclaimName() bool {
	return w.onNode(func(dead *process) {
		dead.Kill()
		w.removeUp(dead)
		w.start(dead.Name())
		for range 2 {
			w.sleep(w.profile.ttl * 3 / 4)
			w.restartStore()
		}
	}, false)
}

func (w *world) startNode() bool {
	if len(w.up) >= w.profile.nodes {
		return false
	}
	name := w.newName()
	// Sometimes it has a known name, whose session may not have expired.
	if w.names > 2 && w.random.IntN(2) == 0 {
		name = fmt.Sprintf("n%d", 1+w.random.IntN(w.names-1))
		if slices.ContainsFunc(w.up, func(p *process) bool { return p.Name() == name }) {
			return false
		}
	}
	w.start(name)
	return true
}

// stopNode stops a node in good order. Whatever its faults, it must end in time.
func (w *world) stopNode() bool {
	return w.onNode(func(p *process) {
		p.resume()
		w.reap(p)
	}, true)
}

// reap stops a process and checks that this takes a limited time (M16).
func (w *world) reap(p *process) {
	began := time.Now()
	_ = p.Stop() // an error names late handlers, which are checked elsewhere
	if took := time.Since(began); took > 2*w.profile.ttl {
		w.fail("M16: node %s took %v to stop; its TTL is %v", p.Name(), took, w.profile.ttl)
	}
}

// restartStorm kills and starts all nodes, as a bad deployment does.
func (w *world) restartStorm() bool {
	for range 2 {
		for _, p := range slices.Clone(w.up) {
			p.Kill()
			w.removeUp(p)
		}
		for range w.profile.nodes {
			w.start(w.newName())
		}
		w.sleep(upTo(w.random, w.profile.ttl))
	}
	return true
}

// Plans are faults of single calls that break no assumption of S2.
var Plans = []string{
	`lose-reply 0s on commit chance 0.4`,
	`lose-reply 2s on commit below "/test/tasks/" chance 0.7`,
	`lose-request 1s on commit chance 0.4`,
	`late 100ms on commit chance 0.4`,
	`late 4s on commit below "/test/tasks/" chance 0.4`,
	`late 30s on commit below "/test/tasks/" chance 0.3`,
	`late 30s on commit below "/test/state/" chance 0.3`,
	`delay-request 3s on commit chance 0.4`,
	`delay-reply 4s on commit chance 0.4`,
	`refuse on commit chance 0.5`,
	`lose-reply 1s on keepalive,grant,revoke chance 0.6`,
	`late 5s on keepalive,grant,revoke chance 0.5`,
	`delay-reply 600ms on keepalive`,
	`delay-reply 1900ms on keepalive`,
	`delay-reply 1900ms on keepalive,commit`,
	`break on batch chance 0.3`,
	`compact on batch,list chance 0.3`,
	`stall on batch call 8`,
	`delay-reply 7s on batch chance 0.2`,
	"refuse on list chance 0.6\nbreak on batch chance 0.5",
	`stall on keepalive chance 0.3`,
	`delay-request 200ms`,
}

// forbidding are plans that take permissions away for a while. A node that has joined
// survives this; one that is about to join ends.
var forbidding = []string{
	`forbid on commit below "/test/state/" chance 0.7`,
	`forbid on commit,watch,list,get chance 0.5`,
	`forbid on keepalive,grant,revoke chance 0.6`,
}

// trouble makes single calls of a connection fail.
func (w *world) trouble(line *faulty.Broker) {
	w.use(line, pick(w.random, slices.Concat(Plans, forbidding)...))
}

// use sets the fault plan of a connection.
func (w *world) use(line *faulty.Broker, rules string) {
	w.harvest(line)
	plan, err := faulty.Parse(fmt.Sprintf("seed %d\n%s", w.random.Uint64(), rules))
	if err != nil {
		w.t.Fatal(err)
	}
	w.mu.Lock()
	w.report.plans[line] = plan
	w.mu.Unlock()
	line.Use(plan)
}

// harvest counts the calls that the plan of a connection has affected.
func (w *world) harvest(line *faulty.Broker) {
	w.mu.Lock()
	plan := w.report.plans[line]
	delete(w.report.plans, line)
	w.mu.Unlock()
	if plan == nil {
		return
	}
	for i, struck := range line.Struck() {
		w.countN("call struck by "+plan.Rules[i].Fault.String(), struck)
	}
}

// patience limits a call of a client.
const patience = 5 * time.Second

// attempt makes a call of a client, with a timeout.
func (w *world) attempt(call func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	return call(ctx)
}

// submit submits some tasks: with names that begin like others, in trees, and with needs.
func (w *world) submit(tasks int) {
	n := 0
	for range tasks {
		w.submitted++
		s := windlass.Submission{ID: fmt.Sprintf("t%d", w.submitted)}
		switch parent := fmt.Sprintf("t%d", 1+w.random.IntN(w.submitted)); w.random.IntN(12) {
		case 0:
			s.ID = parent + "|c" + s.ID
		case 5: // its parent is submitted right after it, as the next task
			s.ID = fmt.Sprintf("t%d|c", w.submitted+1)
		case 1:
			s.ID = parent + "-a"
		case 2:
			if parent != s.ID {
				s.Spec.Needs = []string{parent}
			}
		case 3:
			s.Spec.NotBefore = time.Now().Add(upTo(w.random, time.Minute))
		case 4:
			s.Props = json.RawMessage(`{"some":["thing"]}`)
		}
		s.Spec.Priority = w.random.IntN(3)
		if s.Spec.Group = w.groupOf(s.ID); s.Spec.Group != "" {
			s.Spec.Type = groupedType
		}
		if behaviourOf(s.ID).stays() && w.staying() >= stayingMax {
			continue
		}
		if accepted, _ := w.submitOne(s); accepted {
			n++
		}
	}
	w.countN("acknowledged", n)
}

// submitOne submits a task. accepted is true if it is expected from then on: the error is
// nil, or says that an earlier attempt has submitted it.
func (w *world) submitOne(s windlass.Submission) (accepted bool, err error) {
	err = w.attempt(func(ctx context.Context) error { return w.client.Submit(ctx, s) })
	if accepted = err == nil || windlass.AlreadySubmitted(err); accepted {
		w.expected[s.ID] = true
	}
	return accepted, err
}

// stayingMax limits the tasks that run until they are stopped.
const stayingMax = 40

func (w *world) staying() (n int) {
	for id := range w.expected {
		if behaviourOf(id).stays() {
			n++
		}
	}
	return n
}

// some draws a task that was acknowledged, in an order that the seed decides.
func (w *world) some(wanted func(id string) bool) (string, bool) {
	var ids []string
	for id := range w.expected {
		if wanted(id) {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return "", false
	}
	slices.Sort(ids)
	return ids[w.random.IntN(len(ids))], true
}

func (w *world) delete() bool {
	id, ok := w.some(func(id string) bool { return behaviourOf(id).stays() || w.random.IntN(4) == 0 })
	if ok {
		w.deleteOne(id)
	}
	return ok
}

// deleteOne deletes a task and reports whether that was acknowledged. The task is not
// expected any more in either case.
func (w *world) deleteOne(id string) bool {
	delete(w.expected, id)
	w.log.Deleting(id)
	err := w.attempt(func(ctx context.Context) error { return w.client.Delete(ctx, id) })
	if err == nil {
		w.count("deleted")
		w.deleted = append(w.deleted, id)
	}
	return err == nil
}

// deleteTwice deletes a task with a request that arrives a second time, much later, and
// submits the task again in between.
func (w *world) deleteTwice() bool {
	before := len(w.deleted)
	w.use(w.troubled, `late 12s on commit below "/test/tasks/" chance 0.5`)
	ok := w.delete()
	w.use(w.troubled, "")
	if !ok || len(w.deleted) == before {
		return false
	}
	w.sleep(2 * time.Second)
	return w.resubmitOne(len(w.deleted) - 1)
}

// replaceTasks cuts a node off, and deletes and submits again those of its tasks that
// will soon be done.
func (w *world) replaceTasks(p *process) {
	w.use(p.Faults(), "stall on batch\nrefuse on list,watch")
	for _, task := range p.Tasks() {
		if b := behaviourOf(task.ID); (b == stepwise || b == flaky) && w.expected[task.ID] {
			if w.deleteOne(task.ID) {
				w.resubmitOne(len(w.deleted) - 1)
			}
		}
	}
}

// replaceOnTheWay submits a task that all nodes want, and replaces it by one that waits
// for another while their claims are in flight.
func (w *world) replaceOnTheWay() bool {
	blocker, ok := w.some(func(id string) bool { return behaviourOf(id).stays() })
	if !ok {
		return false
	}
	for _, p := range w.up {
		w.use(p.Faults(), `delay-request 3s on commit below "/test/tasks/"`)
	}
	w.submitted++
	id := fmt.Sprintf("t%d", w.submitted)
	submit := func(spec windlass.Spec) bool {
		return w.attempt(func(ctx context.Context) error { return w.client.Submit(ctx, windlass.Submission{ID: id, Spec: spec}) }) == nil
	}
	if submit(windlass.Spec{}) {
		w.sleep(time.Second)
		if w.deleteOne(id) && submit(windlass.Spec{Needs: []string{blocker}}) {
			w.expected[id] = true
		}
		w.sleep(3 * time.Second)
	}
	for _, p := range w.up {
		w.use(p.Faults(), "")
	}
	return w.expected[id]
}

// resubmit submits a deleted task again.
func (w *world) resubmit() bool {
	if len(w.deleted) == 0 {
		return false
	}
	return w.resubmitOne(w.random.IntN(len(w.deleted)))
}

func (w *world) resubmitOne(i int) bool {
	accepted, err := w.submitOne(windlass.Submission{ID: w.deleted[i]})
	if accepted {
		w.deleted = slices.Delete(w.deleted, i, i+1)
	}
	return err == nil
}

// rerun submits an ended task again.
func (w *world) rerun() bool {
	w.logMu.Lock()
	id, ok := w.some(func(id string) bool { return w.log.Ended(id) != "" })
	w.logMu.Unlock()
	return ok && w.attempt(func(ctx context.Context) error {
		return w.client.Submit(ctx, windlass.Submission{ID: id, Rerun: true})
	}) == nil
}

// cordon cordons or uncordons a node.
func (w *world) cordon() bool {
	p := w.someNode()
	return p != nil && w.attempt(func(ctx context.Context) error {
		if w.random.IntN(3) == 0 {
			_, err := operate.New(w.client).Cordon(ctx, p.Name(), "")
			return err
		}
		return operate.New(w.client).Uncordon(ctx, p.Name())
	}) == nil
}

// command sends a command to a node.
func (w *world) command() bool {
	p := w.someNode()
	if p == nil {
		return false
	}
	node := p.Name()
	if w.random.IntN(3) == 0 {
		// It cannot delete a command that it has carried out.
		w.use(p.Faults(), `lose-request 1s on commit below "/test/nodes/" chance 0.8`)
	}
	c := operate.Command{Command: pick(w.random, operate.Freeze, operate.Unfreeze, operate.Unfreeze,
		operate.Balance, operate.Drain, operate.StopTask, operate.StopTask)}
	tag := ""
	if c.Command == operate.StopTask {
		if id, ok := w.some(func(id string) bool { return behaviourOf(id).stays() }); ok && w.random.IntN(2) == 0 {
			c.Parameters = stopTask(id)
		} else {
			tag = w.commands.tagged(node)
			c.Parameters = stopTask(tag)
		}
	}
	err := w.attempt(func(ctx context.Context) error { return operate.New(w.client).Send(ctx, node, c) })
	if err != nil {
		return errors.Is(err, windlass.ErrNotFound)
	}
	w.count("command acknowledged")
	if tag != "" {
		w.commands.acknowledged(tag)
	}
	return true
}

func stopTask(id string) json.RawMessage {
	parameters, _ := json.Marshal(map[string]string{"task": id}) // strings can always be encoded
	return parameters
}

// compact compacts the history of the store, which the follower has seen.
func (w *world) compact() bool {
	w.sleep(0)
	w.logMu.Lock()
	revision := w.log.Revision()
	w.logMu.Unlock()
	store, release := w.stage.maintained()
	if store == nil {
		return false
	}
	defer release()
	return store.Compact(w.t.Context(), revision) == nil
}

// restartStore stops the store for a while.
func (w *world) restartStore() bool {
	w.sleep(time.Second) // until the follower has seen everything
	if err := w.stage.stop(); err != nil {
		w.t.Fatal(err)
	}
	w.sleep(upTo(w.random, w.profile.ttl*5/4))
	if err := w.stage.start(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	w.sleep(100 * time.Millisecond)
	return true
}
