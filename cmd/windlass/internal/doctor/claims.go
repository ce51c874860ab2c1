package doctor

import (
	"fmt"

	"github.com/windlass-go/windlass/coordinator"
	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/internal/mirror"
)

// unbacked reports whether a claim has another session than its node's registration. Such a
// claim ends when its session expires, unless something renews that.
func (s *snapshot) unbacked(t *mirror.Task) bool {
	if t.Session == 0 || t.Owner == "" {
		return false
	}
	n := s.nodes[t.Owner]
	return (n == nil || n.session != t.Session) && !s.detached(t)
}

// detached reports whether the claim has a session of its own on purpose.
func (s *snapshot) detached(t *mirror.Task) bool {
	return s.records[t.ID].Reason == coordinator.ReasonDetached && s.get(s.space.Claim(t.ID)).Session == t.Session
}

func (s *snapshot) checkClaims(before *snapshot) []Check {
	var n notes
	claims := s.claimed()
	for _, t := range claims {
		switch {
		case t.Session == 0:
			n.add(Problem, "claim(s) without a session, which never go", `"windlass doctor --fix" deletes the owner key`, s.space.Owner(t.ID))
		case s.unbacked(t) && before.holds(t) && before.unbacked(before.tasks.Remains(t.ID)):
			s.noteUnbacked(&n, t)
		case !t.Exists() && before.holds(t):
			n.add(Warning, "claim(s) of tasks that were deleted, whose handlers do not return", "see what they do; the claim goes when they return, or with the session of the node",
				fmt.Sprintf("%s, held by %s", s.space.Owner(t.ID), t.Owner))
		case s.recordDiffers(t):
			n.add(Warning, "record(s) of another incarnation than the one that holds the claim", "nothing: the record informs and decides nothing", s.space.Claim(t.ID))
		}
	}
	return n.checks(CheckClaims, fmt.Sprintf("%d, each with the session of its node", len(claims)))
}

// holds reports whether the first look found the same claim, and no task then if there is
// none now.
func (s *snapshot) holds(now *mirror.Task) bool {
	was := s.tasks.Remains(now.ID)
	return was != nil && was.Token == now.Token && (now.Exists() || !was.Exists())
}

func (s *snapshot) noteUnbacked(n *notes, t *mirror.Task) {
	for _, other := range s.registered() {
		if other.session == t.Session {
			n.add(Problem, "claim(s) that name another node than the one whose session they live with",
				"see who wrote them; deleting the owner key frees the task", fmt.Sprintf("%s names %s and lives with %s", t.ID, t.Owner, other.name))
			return
		}
	}
	n.add(Problem, "claim(s) of a node that is not registered, whose session something keeps alive",
		"find that process and end it, or delete the owner keys", fmt.Sprintf("%s, held by %s", t.ID, t.Owner))
}

func (s *snapshot) recordDiffers(t *mirror.Task) bool {
	n, recorded := s.nodes[t.Owner], s.records[t.ID].Incarnation
	return n != nil && n.err == nil && n.session == t.Session && n.info.Incarnation != "" && recorded != "" && recorded != n.info.Incarnation
}

// checkLeftovers looks for keys whose task or node is gone and that no session will
// remove. A state without a task is normal: deleting a task leaves its state.
func (s *snapshot) checkLeftovers() []Check {
	var n notes
	for _, k := range s.order {
		switch {
		case s.leftover(k):
			n.add(Warning, "record(s) of claims that nobody holds", `"windlass doctor --fix" deletes them`, k.Key)
		case k.Kind == keys.TaskCommand && s.tasks.Get(k.Name) == nil:
			n.add(Warning, "command(s) to tasks that do not exist", "delete the keys", k.Key)
		case k.Kind == keys.NodeCommand && s.nodes[k.Name] == nil && k.Session == 0:
			n.add(Warning, "command(s) to nodes that are not there", "delete the keys; the next node of that name does", k.Key)
		}
	}
	return n.checks(CheckLeftovers, "none")
}
