package deaths

import (
	"cmp"
	"maps"
	"slices"
)

// pairsMost is how many tasks, those that were lost most often, are tried as the other one of two that
// explain deaths together. Each attempt may find one by chance.
const pairsMost = 8

// ofTwo returns the task that explains a death and earlier ones together with another, which this
// death does not list, nil if none does. Two tasks that kill their nodes only after a while are each
// there at a part of the deaths, and chance may explain that. It explains neither once the deaths are
// left out that list the other.
func (b *Book) ofTwo(d *Death, of Fleet, deaths []*entry, all []seen) *suspect {
	for _, other := range b.othersOf(d, of, deaths) {
		without := other.diedIn()
		tried := mostLost(all, without)
		suspects := make([]suspect, 0, len(tried))
		for _, s := range tried {
			suspects = append(suspects, s.suspect(of.Tasks, without))
		}
		for i, s := range suspects {
			if _, often := s.convicted(suspects); !often || s.chance > chanceMost/pairsMost {
				continue
			}
			o := other.suspect(of.Tasks, tried[i].diedIn())
			if _, often := o.convicted(nil); often && o.chance <= chanceMost/pairsMost {
				return &suspects[i]
			}
		}
	}
	return nil
}

// othersOf returns what deaths say of tasks that another one does not list: of those that have died as
// often as sets them aside, the ones that have died most often.
func (b *Book) othersOf(d *Death, of Fleet, deaths []*entry) (others []seen) {
	listed := map[string]bool{}
	for _, l := range d.Lost {
		listed[l.Task] = true
	}
	died := map[string]int{}
	for task, ls := range b.byTask {
		limits, ok := of.Limits(task)
		if !ok || listed[task] || limits.Deaths <= 0 || len(ls) < limits.Deaths {
			continue
		}
		for _, l := range ls {
			if l.token > limits.Created && !l.in.explained(task) {
				died[task]++
			}
		}
	}
	most := slices.SortedFunc(maps.Keys(died), func(x, y string) int { return cmp.Or(died[y]-died[x], cmp.Compare(x, y)) })
	for _, task := range most[:min(len(most), pairsMost)] {
		limits, _ := of.Limits(task)
		others = append(others, newSeen(task, limits, b.looks(task, limits, deaths)))
	}
	return others
}

// mostLost returns those of some tasks, some most, that have died most often without some deaths.
func mostLost(all []seen, without map[*entry]bool) []seen {
	died := make(map[string]int, len(all))
	for _, s := range all {
		for _, e := range s.died {
			if !without[e] {
				died[s.task]++
			}
		}
	}
	most := slices.Clone(all)
	slices.SortFunc(most, func(x, y seen) int { return cmp.Or(died[y.task]-died[x.task], cmp.Compare(x.task, y.task)) })
	return most[:min(len(most), pairsMost)]
}
