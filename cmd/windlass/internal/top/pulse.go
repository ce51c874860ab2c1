package top

import (
	"time"

	"github.com/windlass-go/windlass"
)

// pulseSeconds is how far back rates go.
const pulseSeconds = 60

// pulse counts claims and moves of the last minute, a second at a time.
type pulse struct {
	// since is the revision of the store at the beginning; older claims do not count.
	since int64
	began time.Time
	// held has the last holder of each task.
	held map[string]holder
	// claims and moves are counts, by the second modulo their length; second is the
	// latest one.
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

// rates are the counts of each second of the last minute, the oldest first.
type rates struct {
	claims, moves []int
}

// rates returns the counts since the beginning, of at most a minute.
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

func perSecond(counts []int) float64 { return float64(sumOf(counts)) / float64(max(1, len(counts))) }

func sumOf(counts []int) (sum int) {
	for _, n := range counts {
		sum += n
	}
	return sum
}
