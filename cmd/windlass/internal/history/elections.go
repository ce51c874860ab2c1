package history

import "github.com/windlass-go/windlass/broker"

// lines has the entries of each election at the current revision, by key.
type lines map[string]map[string]broker.KV

// first returns the entry that leads an election; ok is false if there is none.
func (l lines) first(election string) (first broker.KV, ok bool) {
	for _, kv := range l[election] {
		if !ok || kv.Created < first.Created || kv.Created == first.Created && kv.Key < first.Key {
			first, ok = kv, true
		}
	}
	return first, ok
}

func (l lines) take(e broker.Event, election string) {
	if l[election] == nil {
		l[election] = map[string]broker.KV{}
	}
	if e.Deleted {
		delete(l[election], e.KV.Key)
		return
	}
	l[election][e.KV.Key] = e.KV
}

// checkCandidate checks that an entry keeps its session while it exists (I10).
func (l *Log) checkCandidate(e broker.Event, election string) {
	if before, ok := l.lines[election][e.KV.Key]; ok && !e.Deleted && before.Session != e.KV.Session {
		l.complain("I10: the entry %s goes from session %x to %x", e.KV.Key, before.Session, e.KV.Session)
	}
}

// checkLed checks a write that only the leader of an election makes (I10).
func (l *Log) checkLed(e broker.Event) {
	if l.Term == nil || e.Deleted {
		return
	}
	election, token, ok := l.Term(e.KV)
	if !ok {
		return
	}
	l.counts.Led++
	if first, ok := l.lines.first(election); !ok || first.Created != token {
		l.complain("I10: %s is written in term %d of election %q, which %s leads since %d", e.KV.Key, token, election, first.Key, first.Created)
	}
}
