package doctor

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/view"
)

// used is what some keys take, with their values.
type used struct {
	keys  int
	bytes int64
}

func (u *used) add(v used) { u.keys, u.bytes = u.keys+v.keys, u.bytes+v.bytes }

// count adds a key to what its part of the namespace takes.
func (s *snapshot) count(kv broker.KV) {
	part, _, below := strings.Cut(strings.TrimPrefix(kv.Key, s.space.All()), "/")
	if below {
		part += "/"
	}
	u := s.used[part]
	u.add(used{1, int64(len(kv.Key) + len(kv.Value))})
	s.used[part] = u
}

// checkContents tells what the namespace takes, by the first part of the path, what takes
// most first.
func (s *snapshot) checkContents() Check {
	var all used
	var parts []string
	for _, part := range slices.SortedFunc(maps.Keys(s.used), func(p, q string) int {
		return cmp.Or(cmp.Compare(s.used[q].bytes, s.used[p].bytes), strings.Compare(p, q))
	}) {
		u := s.used[part]
		all.add(u)
		if len(parts) < partsShown {
			parts = append(parts, fmt.Sprintf("%s %s (%d)", part, view.Size(u.bytes), u.keys))
		}
	}
	c := Check{Name: CheckContents, Status: OK, Found: fmt.Sprintf("%s in %d keys", view.Size(all.bytes), all.keys)}
	if len(parts) > 0 {
		c.Found += ": " + strings.Join(parts, ", ")
	}
	if more := len(s.used) - len(parts); more > 0 {
		c.Found += fmt.Sprintf(", and %d more", more)
	}
	return c
}

// partsShown is how many parts are named: more than a namespace has, unless someone else
// writes there.
const partsShown = 12
