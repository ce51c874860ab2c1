package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/etcd"
	"github.com/windlass-go/windlass/broker/etcd/embedded"
	"github.com/windlass-go/windlass/cmd/windlass/internal/doctor"
)

func TestDoctor_ChecksVersions(t *testing.T) {
	for version, want := range map[string]doctor.Status{
		"3.5.33": doctor.OK, "3.5.34": doctor.OK, "3.6.14": doctor.OK, "3.7.1": doctor.OK, "3.7.3": doctor.OK, "3.8.0": doctor.OK, "4.0.0": doctor.OK,
		"3.5.32": doctor.Warning, "3.6.13": doctor.Warning, "3.7.0": doctor.Warning, "3.7.1-rc.0": doctor.Warning, "3.8.0-alpha.0": doctor.OK,
		"3.4.23": doctor.Problem, "2.3.8": doctor.Problem, "": doctor.Unknown, "main": doctor.Unknown, "3.x.1": doctor.Unknown,
	} {
		if got := judgeVersion([]etcd.Member{{ID: 1, Name: "m0", Version: version}}); got.Status != want || (want == doctor.OK) != (got.Do == "") {
			t.Errorf("%s: %+v, want %s", version, got, want)
		}
	}
	// The worst version counts; a member that does not answer has none.
	mixed := []etcd.Member{{Version: "3.4.0"}, {Version: "3.6.0"}, {Version: "3.7.3"}, {Err: errors.New("away")}}
	if got := judgeVersion(mixed); got.Status != doctor.Problem || got.Found != "etcd 3.4.0, 3.6.0, 3.7.3" || len(got.Details) != 2 {
		t.Errorf("%+v", got)
	}
	if got := judgeVersion(mixed[3:]); got.Status != doctor.Unknown {
		t.Errorf("%+v", got)
	}
}

func TestDoctor_ChecksTheQuorum(t *testing.T) {
	away := errors.New("no answer")
	leads, follows := etcd.Member{ID: 1, Name: "m0", Leader: true}, etcd.Member{ID: 2, Name: "m1"}
	dead, lost := etcd.Member{ID: 3, Name: "m2", Err: away}, etcd.Member{ID: 2, Name: "m1", Leaderless: true}
	leads.Term, follows.Term, lost.Term = 4, 4, 9 // who is alone may count on
	stale := etcd.Member{ID: 3, Name: "m2", Leader: true, Term: 3}
	learner, nobody := etcd.Member{ID: 4, Name: "m3", Learner: true, Term: 4}, etcd.Member{Endpoint: "x:1", Err: away}
	for found, c := range map[string]struct {
		members []etcd.Member
		want    doctor.Status
		do      string
	}{
		"1 of 1 member(s) answer, m0 leads":                 {[]etcd.Member{leads}, doctor.OK, ""},
		"3 of 3 member(s) answer, m0 leads":                 {[]etcd.Member{leads, follows, follows, learner}, doctor.OK, ""},
		"2 of 3 member(s) answer, m0 leads":                 {[]etcd.Member{leads, follows, dead}, doctor.Warning, "2 must be there"},
		"1 of 3 member(s) answer":                           {[]etcd.Member{lost, dead, dead}, doctor.Problem, "quorum is lost: start members until 2 of 3"},
		"3 of 3 member(s) answer and 2 take part, m0 leads": {[]etcd.Member{leads, follows, lost}, doctor.Warning, "reach each other: 2 must"},
		"4 of 5 member(s) answer and 3 take part, m0 leads": {[]etcd.Member{leads, follows, follows, stale, dead}, doctor.Warning, "does not answer: 3"},
		"2 of 3 member(s) answer and 1 take part, m2 leads": {[]etcd.Member{stale, lost, dead}, doctor.Warning, "does not answer"},
		"2 of 2 member(s) answer":                           {[]etcd.Member{lost, lost}, doctor.Problem, "nobody leads"},
		"none of 2 member(s) answers":                       {[]etcd.Member{nobody, nobody}, doctor.Problem, "whether they run"},
		"1 of 2 member(s) answer, m0 leads":                 {[]etcd.Member{leads, nobody}, doctor.Warning, "does not answer"},
		"2 of 5 member(s) answer, m0 leads":                 {[]etcd.Member{leads, follows, dead, dead, dead}, doctor.Warning, "3 must be there"},
		"4 of 5 member(s) answer, m0 leads":                 {[]etcd.Member{leads, follows, follows, follows, dead}, doctor.Warning, "3 must be there"},
	} {
		got := judgeQuorum(c.members)
		if got.Status != c.want || got.Found != found || !strings.Contains(got.Do, c.do) {
			t.Errorf("%+v, want %q, %s, %q", got, found, c.want, c.do)
		}
	}
}

func TestDoctor_ChecksTheSpace(t *testing.T) {
	const mib = 1 << 20
	for name, c := range map[string]struct {
		member etcd.Member
		want   doctor.Status
		words  string
	}{
		"plenty":          {etcd.Member{InUse: 10 * mib, DBSize: 20 * mib, Quota: 100 * mib}, doctor.OK, "10.0 MiB in use, in a file of 20.0 MiB; 10 % of the quota of 100.0 MiB"},
		"much in use":     {etcd.Member{InUse: 80 * mib, DBSize: 85 * mib, Quota: 100 * mib}, doctor.Warning, "delete what is not needed"},
		"much unused":     {etcd.Member{InUse: 10 * mib, DBSize: 85 * mib, Quota: 100 * mib}, doctor.Warning, "defragment each member"},
		"no quota":        {etcd.Member{InUse: 1 << 30, DBSize: 2 << 30}, doctor.OK, "1.0 GiB in use, in a file of 2.0 GiB; the quota is not told"},
		"alarm":           {etcd.Member{InUse: 10 * mib, DBSize: 20 * mib, Quota: 100 * mib, Alarms: []string{etcd.AlarmNoSpace}}, doctor.Problem, "doctor --fix"},
		"alarm, much":     {etcd.Member{InUse: 99 * mib, DBSize: 99 * mib, Quota: 100 * mib, Alarms: []string{etcd.AlarmNoSpace}}, doctor.Problem, "doctor --fix"},
		"another alarm":   {etcd.Member{Alarms: []string{"CORRUPT"}}, doctor.Problem, "manual"},
		"does not answer": {etcd.Member{Err: errors.New("away")}, doctor.Unknown, "no member tells"},
	} {
		got := judgeSpace([]etcd.Member{c.member})
		if text := fmt.Sprintf("%+v", got); got.Status != c.want || !strings.Contains(text, c.words) {
			t.Errorf("%s: %s, want %s and %q", name, text, c.want, c.words)
		}
	}
}

func TestDoctor_ChecksTheLeases(t *testing.T) {
	for found, c := range map[string]struct {
		all, bare int
		err       error
		want      doctor.Status
	}{
		"5000, and of 1000 of them 99 hold no key": {5000, 99, nil, doctor.OK},
		"100, of which 100 hold no key":            {100, 100, nil, doctor.Warning},
		"not allowed":                              {0, 0, errors.New("not allowed"), doctor.Unknown},
	} {
		if got := judgeLeases(c.all, c.bare, c.err); got.Status != c.want || got.Found != found || (got.Do != "") != (c.want == doctor.Warning) {
			t.Errorf("%+v, want %q, %s", got, found, c.want)
		}
	}
}

// TestDoctor_FixFreesAFullBroker fills an etcd with the history of
// one key.
func TestDoctor_FixFreesAFullBroker(t *testing.T) {
	s, err := embedded.Start(t.Context(), embedded.Config{Dir: t.TempDir(), Socket: true, UnsafeNoFsync: true, QuotaBytes: 18 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close() // its error does not matter here
	b := s.Broker()
	write := broker.Txn{Then: []broker.Op{broker.Put("/elsewhere", bytes.Repeat([]byte("x"), broker.ValueBytesMax))}}
	for i := 0; err == nil; i++ {
		if i == 200 {
			t.Fatal("100 MiB fit into 18")
		}
		_, err = broker.CommitOne(t.Context(), b, write)
	}
	if !errors.Is(err, broker.ErrNoSpace) {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args  []string
		code  int
		words []string
	}{
		{[]string{"task", "submit", "x"}, exitUnavailable, []string{"out of space", "windlass doctor --fix"}},
		{[]string{"doctor"}, exitFailed, []string{"problem  space", "NOSPACE", "writes are refused", "1 problem(s)"}},
		{[]string{"doctor", "--fix"}, exitDone, []string{"done     fix          forget the broker's history", "ok       space", "ok       permissions"}},
		{[]string{"doctor", "--fix"}, exitDone, []string{"ok       space"}},
		{[]string{"task", "submit", "x"}, exitDone, nil},
	} {
		if code, out := runMain(append(c.args, "--broker", s.Dir())...); code != c.code || !containsAll(out, c.words) {
			t.Errorf("%q: exit code %d, want %d and %q\n%s", c.args, code, c.code, c.words, out)
		}
	}
}

// runMain runs the command line, and returns both of its outputs in one text.
func runMain(args ...string) (code int, out string) {
	var buffer bytes.Buffer
	code = Main(context.Background(), args, strings.NewReader(""), &buffer, &buffer)
	return code, buffer.String()
}

func containsAll(text string, words []string) bool {
	return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(text, w) })
}
