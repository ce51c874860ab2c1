package doctor

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/deaths"
	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/internal/layout"
)

// checkLayout checks the version of the layout. known is false if it is newer than this
// version of windlass, so that nothing else can be checked.
func (s *snapshot) checkLayout() (c Check, known bool) {
	c = Check{Name: CheckLayout, Status: OK}
	if s.at[s.space.Layout()] == nil {
		c.Found = "no version is written down; the next node that joins does that"
		if len(s.order) == 0 {
			c.Found = "the namespace is empty; the first node that joins writes the version down"
		}
		return c, true
	}
	version, err := layout.Parse(s.layout)
	switch {
	case version > layout.Version:
		c.Status = Problem
		c.Found = fmt.Sprintf("version %d; this version of windlass knows layouts up to version %d", version, layout.Version)
		c.Do = "use a newer version of windlass"
		return c, false
	case err != nil:
		c.Status, c.Found = Problem, "the version cannot be read"
		c.Do = fmt.Sprintf(`find out who wrote it; then put {"version":%d} there, or delete the key`, layout.Version)
		c.Details = []string{s.space.Layout()}
		return c, true
	}
	c.Found = fmt.Sprintf("version %d", version)
	return c, true
}

// awaited reports whether a node is away and the others keep tasks for it.
func (s *snapshot) awaited(node string, now time.Time) bool {
	_, cordoned := s.cordons[node]
	return s.nodes[node] == nil && !cordoned && now.Before(s.returns[node])
}

// cordonForgotten is how long a node is away until its cordon may have been forgotten.
const cordonForgotten = 30 * 24 * time.Hour

func (s *snapshot) checkNodes(before *snapshot, now time.Time) []Check {
	var n notes
	s.noteSilent(&n, before, now)
	nodes := s.registered()
	versions, ttls := map[string]string{}, map[string]string{}
	var idle []string
	for _, node := range nodes {
		if node.session == 0 {
			n.add(Problem, "registration(s) without a session, which block the name and never go",
				"delete the key if no such node runs", s.space.NodeInfo(node.name))
		}
		if node.err != nil {
			continue // checkValues reports it
		}
		if name := node.info.Name; name != "" && name != node.name {
			n.add(Warning, "registration(s) that name another node", "see who writes them", fmt.Sprintf("%s names %q", s.space.NodeInfo(node.name), name))
		}
		if node.info.Frozen || node.info.Cordoned || node.info.Draining {
			idle = append(idle, node.name)
		}
		if behind := node.info.Behind; behind != "" {
			n.add(Warning, "node(s) that saw late what others do, within the last half minute; while they do they claim nothing in others' stead",
				"give them or the broker more of a processor, or divide the namespace", fmt.Sprintf("%s was %s behind, or more", node.name, behind))
		}
		if slow := node.info.SlowRenewal; slow != "" {
			n.add(Warning, "node(s) whose session was renewed slowly within the last ten minutes",
				"look at the broker's disks, the network and the nodes' processors; if a renewal takes too long, a node stops all that it runs",
				fmt.Sprintf("%s: %s, of its TTL of %s", node.name, slow, node.info.SessionTTL))
		}
		versions[node.info.Version] = node.name
		ttls[node.info.SessionTTL] = node.name
	}
	away := 0
	for _, name := range slices.Sorted(maps.Keys(s.cordons)) {
		if s.nodes[name] != nil {
			continue
		}
		away++
		if time.Since(s.cordons[name].At) > cordonForgotten {
			n.add(Warning, "cordon(s) of nodes that are not there, for more than a month", `"windlass node uncordon" forgets those of nodes that do not come back`, name)
		}
	}
	s.noteDeaths(&n)
	s.noteClocks(&n)
	if len(idle) == len(nodes) {
		for _, name := range idle {
			n.add(Warning, "node(s) frozen, cordoned or draining, which is all of them: nothing is claimed", `"windlass node unfreeze" or "uncordon" takes them back`, name)
		}
	}
	differ(&n, versions, "version", "that is fine during a deploy")
	differ(&n, ttls, "session TTL", "each takes over at its own pace; start them with the same --session-ttl")
	if len(nodes) == 0 {
		if len(n.list) == 0 {
			return []Check{s.noNode()}
		}
		return append(n.checks(CheckNodes, ""), s.noNode())
	}
	healthy := fmt.Sprintf("%d registered", len(nodes))
	if len(idle) > 0 {
		healthy += fmt.Sprintf(", %d of them frozen, cordoned or draining", len(idle))
	}
	if back := slices.DeleteFunc(slices.Collect(maps.Keys(s.returns)), func(name string) bool { return !s.awaited(name, now) }); len(back) > 0 {
		healthy += fmt.Sprintf(", %d away and to be back", len(back))
	}
	if away > 0 {
		healthy += fmt.Sprintf(", %d cordoned and not there", away)
	}
	return n.checks(CheckNodes, healthy)
}

// noNode is what there is to say where no node is.
func (s *snapshot) noNode() Check {
	if len(s.live()) == 0 && slices.ContainsFunc(s.order, func(k *found) bool { return k.Kind == keys.Candidate }) {
		return Check{Name: CheckNodes, Status: OK, Found: "no node is registered, and no task waits for one: elections need none"}
	}
	return Check{Name: CheckNodes, Status: Warning, Found: "no node is registered", Do: "start one, or see in its log why it does not join"}
}

// noteDeaths reports the tasks that killed nodes, and the nodes that keep dying for another
// reason.
func (s *snapshot) noteDeaths(n *notes) {
	var book deaths.Book
	book.Set(s.deaths, true, func(string) broker.Revision { return 0 }, time.Now())
	unexplained, died := map[string]int{}, map[string]string{}
	for _, d := range s.deaths {
		if time.Since(d.At) > deaths.Window {
			continue
		}
		if died[d.Node] = cmp.Or(died[d.Node], d.Node); d.Process != "" {
			died[d.Node] = fmt.Sprintf("%s, or its %s,", d.Node, d.Process)
		}
		t := s.tasks.Get(d.Culprit)
		runsAgain := t != nil && book.Blamed(t.ID, t.Created) == nil
		if unexplained[d.Node] = book.Unexplained(d.Node); d.Culprit != "" && !runsAgain {
			n.add(Warning, "task(s) that seem to have killed the nodes that ran them, and were set aside", `mend what they do; "windlass task retry" runs them again`,
				fmt.Sprintf("%s, with which %d nodes died", d.Culprit, d.Count))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(unexplained)) {
		if unexplained[name] < 2 {
			continue
		}
		found := fmt.Sprintf("%s died %d times", died[name], unexplained[name])
		if node := s.nodes[name]; node != nil && !node.info.Probation.IsZero() {
			found += ", and is given nothing until " + node.info.Probation.Format(time.RFC3339)
		}
		n.add(Warning, "node(s) that died repeatedly within the last hour", `"windlass node deaths" has the suspects; see why their processes end`, found)
	}
}

// clockAheadMax is how far ahead of this machine's clock those of nodes may be.
const clockAheadMax = 10 * time.Second

// noteClocks reports the nodes that started, or claimed a task, at a time that is yet to come by
// this machine's clock. A clock that is behind cannot be told from an old claim.
func (s *snapshot) noteClocks(n *notes) {
	now, ahead := time.Now(), map[string]time.Duration{}
	note := func(name string, at time.Time) {
		if by := at.Sub(now); by > clockAheadMax {
			ahead[name] = max(ahead[name], by)
		}
	}
	for _, node := range s.registered() {
		note(node.name, node.info.StartedAt)
	}
	for _, t := range s.claimed() {
		if !s.unbacked(t) {
			note(t.Owner, s.records[t.ID].ClaimedAt)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(ahead)) {
		n.add(Warning, "node(s) that started or claimed tasks in the future, by this machine's clock",
			"set the clocks of these machines, and of this one; tasks sleep and wait by the clock of their node",
			fmt.Sprintf("%s: %v ahead, or more", name, ahead[name].Round(time.Second)))
	}
}

// differ warns if nodes have different values; values has a node for each of them.
func differ(n *notes, values map[string]string, what, do string) {
	if len(values) < 2 {
		return
	}
	for _, value := range slices.Sorted(maps.Keys(values)) {
		n.add(Warning, "different "+what+"s of nodes", do, fmt.Sprintf("%s %s, as node %s", what, cmp.Or(value, "none"), values[value]))
	}
}

// checkDuplicates looks for keys that exclude each other.
func (s *snapshot) checkDuplicates() []Check {
	var n notes
	for _, t := range s.live() {
		if s.ended(t) {
			n.add(Problem, "task(s) that have ended and are still there", `"windlass doctor --fix" removes what is left of them, unless someone holds them`,
				fmt.Sprintf("%s is %s", t.ID, s.states[t.ID]))
		}
	}
	same := map[any][]string{} // names of nodes by their session, and by their incarnation
	for _, node := range s.registered() {
		if node.session != 0 {
			same[node.session] = append(same[node.session], node.name)
		}
		if i := node.info.Incarnation; i != "" {
			same[i] = append(same[i], node.name)
		}
	}
	twice := map[string]bool{}
	for _, names := range same {
		if len(names) > 1 {
			twice[strings.Join(names, " and ")] = true
		}
	}
	for _, names := range slices.Sorted(maps.Keys(twice)) {
		n.add(Problem, "session(s) with more than one registration", "stop those nodes, and delete what stays of them", names)
	}
	return n.checks(CheckDuplicates, "none")
}
