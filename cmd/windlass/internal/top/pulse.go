package top

import (
	"time"

	"github.com/windlass-go/windlass"
)

// pulseSeconds is how far back rates go.
const pulseSeconds = 60

// pulse counts claims and moves of the last minute, a second at a time.
type pulse struct {
	// since is the revision that the store had when it began: claims up to there are
	// not of this minute.
	since int64
	began time.Time
	// held says of each task who had it last, and under which token.
	held map[string]holder
	// claims and moves are counts by second, of the second modulo their length;
	// second is the latest one counted.
	claims, moves [pulseSeconds]int
	second        int64
}

type holder struct {
	node  string
	token int64
}

func newPulse(now time.Time) *pulse {
	return &pulse{began: now, held: map[string]holder{}, second: now.Unix()}
}

// see takes a change.
func (p *pulse) see(change windlass.TaskChange, now time.Time) {
	t := change.Task
	switch {
	case change.Gone || t.FinishedAt != nil:
		delete(p.held, t.ID)
		return
	case t.Token == 0 || t.Node == "" || p.held[t.ID].token == t.Token:
		return
	}
	before := p.held[t.ID]
	p.held[t.ID] = holder{t.Node, t.Token}
	if t.Token <= p.since {
		return
	}
	p.advance(now)
	p.claims[p.second%pulseSeconds]++
	if before.node != "" && before.node != t.Node {
		p.moves[p.second%pulseSeconds]++
	}
}

// advance clears the seconds since the last one counted.
func (p *pulse) advance(now time.Time) {
	for to := now.Unix(); p.second < to; {
		p.second = max(p.second+1, to-pulseSeconds)
		p.claims[p.second%pulseSeconds], p.moves[p.second%pulseSeconds] = 0, 0
	}
}

// rates are claims and moves in the last minute, by second, the oldest first.
type rates struct {
	claims, moves []int
}

// rates are those of the seconds for which it has counted, at most of a minute.
func (p *pulse) rates(now time.Time) rates {
	p.advance(now)
	n := int64(min(pulseSeconds, max(1, int(now.Sub(p.began)/time.Second))))
	var r rates
	for s := p.second - n + 1; s <= p.second; s++ {
		r.claims = append(r.claims, p.claims[s%pulseSeconds])
		r.moves = append(r.moves, p.moves[s%pulseSeconds])
	}
	return r
}

// perSecond is the mean.
func perSecond(counts []int) float64 {
	sum := 0
	for _, n := range counts {
		sum += n
	}
	return float64(sum) / float64(max(1, len(counts)))
}
