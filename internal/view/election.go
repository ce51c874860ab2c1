package view

import "github.com/windlass-go/windlass/election"

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
	// Silent is for how long the candidate has not renewed its session, as "25s".
	Silent string `json:"silent,omitempty" doc:"for how long it has not renewed its session, as 25s, if that is longer than its TTL"`
}

// ElectionOf is the view of an election with at least one candidate.
func ElectionOf(info election.ElectionInfo) Election {
	v := Election{Name: info.Name, Leader: info.Candidates[0].Name, Token: info.Candidates[0].Token}
	for _, c := range info.Candidates {
		candidate := Candidate{Name: c.Name, Token: c.Token, Resigning: c.Resigning}
		if c.Silent > 0 {
			candidate.Silent = c.Silent.String()
		}
		v.Candidates = append(v.Candidates, candidate)
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
