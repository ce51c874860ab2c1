package heap

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestHeap_HasTheLeastFirstWhateverIsDone(t *testing.T) {
	type item struct{ value, place int }
	rapid.Check(t, func(t *rapid.T) {
		h := New(func(a, b *item) bool { return a.value < b.value }, func(i *item, place int) { i.place = place })
		var all []*item
		pick := func(t *rapid.T) int { return rapid.IntRange(0, len(all)-1).Draw(t, "which") }
		value := func(t *rapid.T) int { return rapid.IntRange(0, 100).Draw(t, "value") }
		t.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) {
				all = append(all, &item{value: value(t)})
				h.Push(all[len(all)-1])
			},
			"pop": func(t *rapid.T) {
				if len(all) == 0 {
					t.Skip("there is none")
				}
				least := h.Pop()
				all = slices.DeleteFunc(all, func(i *item) bool { return i == least })
				for _, other := range all {
					if other.value < least.value {
						t.Fatalf("%d comes before %d", least.value, other.value)
					}
				}
			},
			"fix": func(t *rapid.T) {
				if len(all) == 0 {
					t.Skip("there is none")
				}
				i := all[pick(t)]
				i.value = value(t)
				h.Fix(i.place)
			},
			"set": func(t *rapid.T) {
				if len(all) == 0 {
					t.Skip("there is none")
				}
				at := pick(t)
				place := all[at].place
				all[at] = &item{value: value(t)}
				h.Set(place, all[at])
			},
			"remove": func(t *rapid.T) {
				if len(all) == 0 {
					t.Skip("there is none")
				}
				at := pick(t)
				h.Remove(all[at].place)
				if all[at].place != -1 {
					t.Fatalf("one that is out is at %d", all[at].place)
				}
				all = slices.Delete(all, at, at+1)
			},
			"": func(t *rapid.T) {
				if h.Len() != len(all) {
					t.Fatalf("%d items of %d", h.Len(), len(all))
				}
				for _, i := range all {
					if i.value < h.First().value {
						t.Fatalf("%d is first, and there is %d", h.First().value, i.value)
					}
				}
			},
		})
	})
}
