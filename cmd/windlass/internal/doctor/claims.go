package doctor

import (
	"fmt"
	"maps"
	"slices"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/coordinator"
	"github.com/windlass-go/windlass/internal/keys"
)

// unbacked tells of a claim that lives with a session which is not that of its
// node's registration. It goes when that session expires, unless something keeps
// the session alive.
func (s *snapshot) unbacked(t *task) bool {
	if t.owner == nil || t.owner.session == 0 || t.node == "" {
		return false
	}
	n := s.nodes[t.node]
	return (n == nil || n.info == nil || n.info.session != t.owner.session) && !t.detached()
}

// detached tells that the claim has a session of its own by intent.
func (t *task) detached() bool {
	return t.claim != nil && t.corrupt[keys.Claim] == nil && t.record.Reason == coordinator.ReasonDetached && t.claim.session == t.owner.session
}

// sessionOf is the node that is registered with a session, empty if none is.
func (s *snapshot) sessionOf(id broker.SessionID) string {
	for _, n := range s.nodes {
		if n.info != nil && n.info.session == id {
			return n.name
		}
	}
	return ""
}

func (s *snapshot) checkClaims(before *snapshot, space keys.Space) Check {
	var n notes
	claims := 0
	for _, id := range slices.Sorted(maps.Keys(s.tasks)) {
		t := s.tasks[id]
		if t.owner == nil {
			continue
		}
		claims++
		switch {
		case t.owner.session == 0:
			n.add(Problem, "claim(s) without a session, which never go", `"windlass doctor --fix" deletes the owner key`, space.Owner(id))
		case s.unbacked(t) && before.stillUnbacked(t):
			s.noteUnbacked(&n, t)
		case !t.exists() && before.holds(t):
			n.add(Warning, "claim(s) of tasks that were deleted, whose handlers do not return", "see what they do; the claim goes when they return, or with the session of the node",
				fmt.Sprintf("%s, held by %s", space.Owner(id), t.node))
		case s.recordDiffers(t):
			n.add(Warning, "record(s) of another incarnation than the one that holds the claim", "nothing: the record informs and decides nothing", space.Claim(id))
		}
	}
	return n.check(CheckClaims, fmt.Sprintf("%d, each with the session of its node", claims))
}

// stillUnbacked tells that a claim was found in the first look as it is now.
func (s *snapshot) stillUnbacked(now *task) bool { return s.holds(now) && s.unbacked(s.tasks[now.id]) }

// holds tells that the first look has found the same claim, of a task that did
// not exist then if it does not now.
func (s *snapshot) holds(now *task) bool {
	was := s.tasks[now.id]
	return was != nil && was.owner != nil && was.owner.created == now.owner.created && (now.exists() || !was.exists())
}

func (s *snapshot) noteUnbacked(n *notes, t *task) {
	if other := s.sessionOf(t.owner.session); other != "" {
		n.add(Problem, "claim(s) that name another node than the one whose session they live with",
			"see who wrote them; deleting the owner key frees the task", fmt.Sprintf("%s names %s and lives with %s", t.id, t.node, other))
		return
	}
	n.add(Problem, "claim(s) of a node that is not registered, whose session something keeps alive",
		"find that process and end it, or delete the owner keys", fmt.Sprintf("%s, held by %s", t.id, t.node))
}

func (s *snapshot) recordDiffers(t *task) bool {
	n := s.nodes[t.node]
	return n != nil && n.info != nil && n.corrupt == nil && n.info.session == t.owner.session &&
		t.claim != nil && t.corrupt[keys.Claim] == nil && n.infos.Incarnation != "" && t.record.Incarnation != "" && t.record.Incarnation != n.infos.Incarnation
}

// checkLeftovers looks for keys whose task or node is gone and that no session
// will remove. States without a task are none: deleting a task leaves its state.
func (s *snapshot) checkLeftovers(space keys.Space) Check {
	var n notes
	for _, id := range slices.Sorted(maps.Keys(s.tasks)) {
		t := s.tasks[id]
		if t.leftoverClaim() {
			n.add(Warning, "record(s) of claims that nobody holds", `"windlass doctor --fix" deletes them`, space.Claim(id))
		}
		if t.command != nil && !t.exists() {
			n.add(Warning, "command(s) to tasks that do not exist", "delete the keys", space.TaskCommand(id))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.nodes)) {
		node := s.nodes[name]
		for _, id := range slices.Sorted(maps.Keys(node.commands)) {
			if node.info == nil && node.commands[id].session == 0 {
				n.add(Warning, "command(s) to nodes that are not there", "delete the keys; the next node of that name does", space.NodeCommand(name, id))
			}
		}
	}
	return n.check(CheckLeftovers, "none")
}

// leftoverClaim tells of the record of a claim that is not there and that no
// session will remove.
func (t *task) leftoverClaim() bool { return t.claim != nil && t.claim.session == 0 && t.owner == nil }
