package listing

import (
	"slices"
	"sync"
)

// sortedIDs has the IDs of an index in order. It sorts them on demand: many tasks can
// arrive between two lists.
type sortedIDs struct {
	mu    sync.Mutex
	known map[string]bool
	// ids was correct at some time and is never modified. since has the IDs added after
	// that, and gone is true if some were removed.
	ids, since []string
	gone       bool
}

// take records tasks that may have been added or removed.
func (s *sortedIDs) take(b *Index, changed []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range changed {
		switch listed := b.lists(id); {
		case listed && !s.known[id]:
			s.known[id] = true
			s.since = append(s.since, id)
		case !listed && s.known[id]:
			delete(s.known, id)
			s.gone = true
		}
	}
}

// sorted returns the IDs in order. The caller must not modify them.
func (s *sortedIDs) sorted() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.since) == 0 && !s.gone {
		return s.ids
	}
	slices.Sort(s.since)
	before, since := s.ids, s.since
	merged := make([]string, 0, len(s.known))
	for len(before) > 0 || len(since) > 0 {
		from := &before
		if len(before) == 0 || len(since) > 0 && since[0] < before[0] {
			from = &since
		}
		id := (*from)[0]
		*from = (*from)[1:]
		if s.known[id] && (len(merged) == 0 || merged[len(merged)-1] != id) {
			merged = append(merged, id)
		}
	}
	s.ids, s.since, s.gone = merged, nil, false
	return s.ids
}
