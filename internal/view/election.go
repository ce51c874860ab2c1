package view

import (
	"fmt"
	"time"

	"github.com/windlass-go/windlass/election"
)

// Election is an election in which somebody stands. Its JSON is stable.
type Election struct {
	Name       string      `json:"name"`
	Leader     string      `json:"leader"`
	Token      int64       `json:"token" doc:"the fencing token of the leader's term"`
	Candidates []Candidate `json:"candidates" doc:"in line in this order; the first one leads"`
}

// Candidate stands in an election. Its JSON is stable.
type Candidate struct {
	Name string `json:"name"`
	// Token is that of the term that the candidate has or will have.
	Token int64 `json:"token"`
	// Resigning is set once it was asked to resign.
	Resigning bool `json:"resigning,omitempty"`
	// SilentSince is when the candidate last renewed its session, if that is longer ago than its TTL.
	SilentSince time.Time `json:"silent_since,omitzero" doc:"when it last renewed its session, if that is longer ago than its TTL"`
}

// ElectionOf is the view of an election with at least one candidate.
func ElectionOf(info election.ElectionInfo) Election {
	v := Election{Name: info.Name, Leader: info.Candidates[0].Name, Token: info.Candidates[0].Token}
	for _, c := range info.Candidates {
		v.Candidates = append(v.Candidates, Candidate{Name: c.Name, Token: c.Token, Resigning: c.Resigning, SilentSince: c.SilentSince})
	}
	return v
}

// Resigned is the outcome of a request to resign. Its JSON is stable.
type Resigned struct {
	Election string `json:"election"`
	// Asked is the leader who was asked, in the term of Token.
	Asked string `json:"asked"`
	Token int64  `json:"token"`
	// Leader is the next leader, empty if nobody leads or nobody waited.
	Leader string `json:"leader"`
}

// Late says that the leader was asked and has not stepped down in time, and why that may be.
// silent is when it last renewed its session, if that is too long ago.
func (r Resigned) Late(within time.Duration, silent, now time.Time) string {
	text := fmt.Sprintf("election %q: candidate %q was asked, and has not stepped down within %v", r.Election, r.Asked, within)
	if !silent.IsZero() {
		text += fmt.Sprintf(`: it is dead or cut off, %s; a node or candidate that starts ends its session, and so does "windlass doctor --fix"`, NotRenewed(silent, now))
	}
	return text
}
