package outbox

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// at returns a time of the tests, in seconds.
func at(seconds int) time.Time { return time.Unix(1_000_000+int64(seconds), 0) }

// seconds is the inverse of at.
func seconds(t time.Time) string {
	switch {
	case t.IsZero():
		return "never"
	case t.Before(at(0)):
		return "at once"
	}
	return fmt.Sprint(int(t.Sub(at(0)).Seconds()))
}

// play runs a script on a lane with at most two calls of at most two writes, and
// returns the answers. The words of a script are
//
//	x=1 x=1@5  Put x with the value 1, not before second 5
//	+5         set the time to second 5
//	take done  Take, and Done with the oldest call in flight
//	keep1      Sift, keeping the writes with the value 1
//	drop       DropAll
//	5!         Pause until second 5
//	wake       Wake
//	?x         Has and UnderWay
//	size       Len, Calls and Empty
func play(script string) string {
	l := Lane[string, string]{BatchMax: 2, CallsMax: 2}
	var calls []Call[string, string]
	var answers []string
	now := at(0)
	answer := func(format string, args ...any) { answers = append(answers, fmt.Sprintf(format, args...)) }
	for _, word := range strings.Fields(script) {
		var n int
		key, value, put := strings.Cut(word, "=")
		switch {
		case put:
			value, later, delayed := strings.Cut(value, "@")
			var notBefore time.Time
			if delayed {
				_, _ = fmt.Sscan(later, &n)
				notBefore = at(n)
			}
			l.Put(key, value, notBefore)
		case word == "take":
			if c, ok := l.Take(now); ok {
				calls = append(calls, c)
				answer("%s:%s", strings.Join(c.Keys, ""), strings.Join(c.Values, ""))
			} else {
				answer("-")
			}
		case word == "done":
			l.Done(calls[0])
			calls = calls[1:]
		case word == "drop":
			answer("%s", strings.Join(l.DropAll(), ""))
		case word == "wake":
			answer("%s", seconds(l.Wake()))
		case word == "size":
			answer("%d/%d/%v", l.Len(), l.Calls(), l.Empty())
		case word[0] == '?':
			answer("%v/%v", l.Has(word[1:]), l.UnderWay(word[1:]))
		case strings.HasPrefix(word, "keep"):
			l.Sift(now, func(_, value string) bool { return value == word[4:] })
		case strings.HasSuffix(word, "!"):
			_, _ = fmt.Sscan(word, &n)
			l.Pause(at(n))
		default:
			_, _ = fmt.Sscan(word, &n)
			now = at(n)
		}
	}
	return strings.Join(answers, " ")
}

func TestLane(t *testing.T) {
	for _, c := range []struct{ name, script, want string }{
		{"an empty lane has nothing to send", "take wake size", "- never 0/0/true"},
		{"writes go in the order of Put", "c=1 a=2 b=3 take take take", "ca:12 b:3 -"},
		{"BatchMax limits the writes of a call", "a=1 b=2 c=3 take size", "ab:12 1/1/false"},
		{"CallsMax limits the calls in flight", "a=1 b=2 c=3 d=4 e=5 take take take done take", "ab:12 cd:34 - e:5"},
		{"a later value replaces the waiting one in its place", "a=1 b=2 a=3 size take", "2/0/false ab:32"},
		{"another time moves a waiting write", "a=1@3 b=2@5 a=3@6 wake +6 take", "5 ba:23"},
		{"a write in flight is not affected", "a=1 take a=2 ?a size take done done ?a", "a:1 true/true 1/1/false a:2 false/false"},
		{"later writes overtake one that waits for its time", "a=1@5 b=2 take wake +4 take +5 take", "b:2 5 - a:1"},
		{"earlier times go first", "a=1@5 b=2@3 c=3@4 +9 take take", "bc:23 a:1"},
		{"with enough calls in flight only an answer wakes", "a=1 take b=1 take c=1 wake done wake", "a:1 b:1 never at once"},
		{"a pause stops all writes", "a=1 5! take wake +5 take", "- 5 a:1"},
		{"it wakes at the end of the pause or the time of a write, whichever is later", "a=1@7 5! wake b=2@3 wake", "7 5"},
		{"a pause can be ended", "a=1 9! 0! take", "a:1"},
		{"a retried write goes behind those that came meanwhile", "a=1 take b=2 done a=1 take", "a:1 ba:21"},
		{"Sift drops writes", "a=1 b=2 c=1 keep1 take size", "ac:11 0/1/false"},
		{"Sift ignores writes that are not due", "a=1 b=2@5 keep1 size +5 keep1 size", "2/0/false 1/0/false"},
		{"Sift does nothing while nothing could be sent", "a=1 take b=1 take c=2 keep1 size done keep1 size", "a:1 b:1 1/2/false 0/1/false"},
		{"Sift does nothing during a pause", "a=2 5! keep1 size", "1/0/false"},
		{"DropAll drops waiting writes, not those in flight", "a=1 take a=2 b=3@5 drop ?a ?b size", "a:1 23 true/true false/false 0/1/false"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := play(c.script); got != c.want {
				t.Errorf("%s\n got %s\nwant %s", c.script, got, c.want)
			}
		})
	}
}

// model is a simple lane: a list of writes, and calls that are lists of keys.
type model struct {
	batchMax, callsMax int
	waiting            []write
	calls              [][]int
	pausedUntil        time.Time
}

type write struct {
	key, value int
	at         time.Time
}

func (m *model) put(w write) {
	n := slices.IndexFunc(m.waiting, func(other write) bool { return other.key == w.key })
	switch {
	case n < 0:
		m.waiting = append(m.waiting, w)
	case m.waiting[n].at.Equal(w.at):
		m.waiting[n] = w
	default:
		m.waiting = append(slices.Delete(m.waiting, n, n+1), w)
	}
	slices.SortStableFunc(m.waiting, func(a, b write) int { return a.at.Compare(b.at) })
}

func (m *model) due(now time.Time) (n int) {
	for len(m.calls) < m.callsMax && !now.Before(m.pausedUntil) && n < len(m.waiting) && !m.waiting[n].at.After(now) {
		n++
	}
	return n
}

func (m *model) take(now time.Time) (keys, values []int) {
	n := min(m.due(now), m.batchMax)
	for _, w := range m.waiting[:n] {
		keys, values = append(keys, w.key), append(values, w.value)
	}
	if m.waiting = slices.Delete(m.waiting, 0, n); n > 0 {
		m.calls = append(m.calls, keys)
	}
	return keys, values
}

func (m *model) sift(now time.Time, keep func(key, value int) bool) {
	n := m.due(now)
	kept := slices.DeleteFunc(slices.Clone(m.waiting[:n]), func(w write) bool { return !keep(w.key, w.value) })
	m.waiting = slices.Concat(kept, m.waiting[n:])
}

func (m *model) has(key int) (waits, underWay bool) {
	waits = slices.ContainsFunc(m.waiting, func(w write) bool { return w.key == key })
	underWay = slices.ContainsFunc(m.calls, func(keys []int) bool { return slices.Contains(keys, key) })
	return waits, underWay
}

// agree compares a lane with its model.
func (m *model) agree(l *Lane[int, int], keys int) error {
	for key := range keys {
		waits, underWay := m.has(key)
		if l.Has(key) != (waits || underWay) || l.UnderWay(key) != underWay {
			return fmt.Errorf("Has(%d) = %v, UnderWay(%d) = %v", key, l.Has(key), key, l.UnderWay(key))
		}
	}
	if l.Len() != len(m.waiting) || l.Calls() != len(m.calls) || l.Empty() != (len(m.waiting)+len(m.calls) == 0) {
		return fmt.Errorf("%d writes wait, %d calls in flight, empty: %v; want %d and %d", l.Len(), l.Calls(), l.Empty(), len(m.waiting), len(m.calls))
	}
	if l.Empty() && (l.items != nil || l.waiting != nil) {
		return fmt.Errorf("it is empty and keeps memory")
	}
	var wake time.Time
	if len(m.waiting) > 0 && len(m.calls) < m.callsMax {
		wake = latest(time.Unix(0, 0), m.waiting[0].at, m.pausedUntil)
	}
	if !l.Wake().Equal(wake) {
		return fmt.Errorf("it wakes at %s, want %s", seconds(l.Wake()), seconds(wake))
	}
	return nil
}

// randomly makes a random call to a lane and its model, and compares them.
func (m *model) randomly(l *Lane[int, int], r *rand.Rand, keys int, now time.Time, calls *[]Call[int, int]) error {
	switch r.IntN(10) {
	case 0, 1, 2, 3:
		w := write{key: r.IntN(keys), value: r.IntN(100)}
		if r.IntN(2) == 0 {
			w.at = now.Add(time.Duration(r.IntN(5)-1) * time.Second)
		}
		l.Put(w.key, w.value, w.at)
		m.put(w)
	case 4, 5, 6:
		c, ok := l.Take(now)
		keys, values := m.take(now)
		if !slices.Equal(c.Keys, keys) || !slices.Equal(c.Values, values) || ok != (len(keys) > 0) {
			return fmt.Errorf("Take returned %v with %v (%v), want %v with %v", c.Keys, c.Values, ok, keys, values)
		}
		if ok {
			*calls = append(*calls, c)
		} else if wake := l.Wake(); !wake.IsZero() && !wake.After(now) {
			return fmt.Errorf("nothing is due at %s, and it wakes at %s", seconds(now), seconds(wake))
		}
	case 7:
		if n := len(*calls); n > 0 {
			n = r.IntN(n)
			l.Done((*calls)[n])
			*calls, m.calls = slices.Delete(*calls, n, n+1), slices.Delete(m.calls, n, n+1)
		}
	case 8:
		odd := func(_, value int) bool { return value%2 == 1 }
		l.Sift(now, odd)
		m.sift(now, odd)
	default:
		if r.IntN(3) > 0 {
			m.pausedUntil = now.Add(time.Duration(r.IntN(4)) * time.Second)
			l.Pause(m.pausedUntil)
			break
		}
		l.DropAll()
		m.waiting = nil
	}
	return m.agree(l, keys)
}

func TestLane_AgreesWithASimpleModel(t *testing.T) {
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 0))
		m := &model{batchMax: 1 + r.IntN(4), callsMax: 1 + r.IntN(3)}
		l := &Lane[int, int]{BatchMax: m.batchMax, CallsMax: m.callsMax}
		var calls []Call[int, int]
		now, keys := at(0), 1+r.IntN(10)
		for step := range 200 {
			if r.IntN(4) == 0 {
				now = now.Add(time.Duration(r.IntN(3)) * time.Second)
			}
			if err := m.randomly(l, r, keys, now, &calls); err != nil {
				t.Fatalf("seed %d, step %d: %v", seed, step, err)
			}
		}
	}
}

// A row begins every call that is due, after what is to be done before, and takes its answers back where it is told.
func TestRow_BeginsTheCallsThatAreDueAndTakesTheirAnswers(t *testing.T) {
	var l Lane[string, int]
	var waiting []func() func()
	var log []string
	begin := func(call func() func()) { waiting = append(waiting, call) }
	now := time.Unix(100, 0)
	row := NewRow(&l, 2, 2, begin, func(_ context.Context, keys []string, _ []int) func() {
		log = append(log, "call "+strings.Join(keys, ""))
		return func() { log = append(log, "answer "+strings.Join(keys, "")) }
	}).After(func(time.Time) {
		log = append(log, "before")
		l.Sift(now, func(key string, _ int) bool { return key != "x" })
	})
	for _, key := range []string{"a", "b", "x", "c", "d", "e"} {
		l.Put(key, 1, time.Time{})
	}
	row.Send(t.Context(), now)
	if len(waiting) != 2 || row.Lane.Calls() != 2 || !row.Lane.Wake().IsZero() {
		t.Fatalf("%d calls have begun, %d count, and it wakes at %v", len(waiting), row.Lane.Calls(), row.Lane.Wake())
	}
	for _, call := range waiting {
		call()()
	}
	row.Send(t.Context(), now)
	if want := []string{"before", "call ab", "answer ab", "call cd", "answer cd", "before"}; !slices.Equal(log, want) || len(waiting) != 3 {
		t.Errorf("it went %q, with %d calls, want %q and a third call", log, len(waiting), want)
	}
}
