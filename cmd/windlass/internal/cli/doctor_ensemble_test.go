package cli

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/windlass-go/windlass/broker/zookeeper"
	"github.com/windlass-go/windlass/cmd/windlass/internal/doctor"
)

func TestDoctor_ChecksAnEnsemble(t *testing.T) {
	leads, follows := zookeeper.Member{Address: "a", Version: "3.8.0", Mode: "leader"}, zookeeper.Member{Address: "b", Version: "3.9.4", Mode: "follower"}
	lost, away := zookeeper.Member{Address: "c"}, zookeeper.Member{Address: "d", Err: errors.New("no answer")}
	for found, c := range map[string]struct {
		members []zookeeper.Member
		want    doctor.Status
		words   string
	}{
		"2 of 2 server(s) serve, a leads": {[]zookeeper.Member{leads, follows}, doctor.OK, ""},
		"1 of 1 server(s) serve":          {[]zookeeper.Member{follows}, doctor.OK, ""},
		"2 of 3 server(s) serve, a leads": {[]zookeeper.Member{leads, follows, away}, doctor.Warning, "d: no answer"},
		"2 of 4 server(s) serve, a leads": {[]zookeeper.Member{leads, follows, lost, away}, doctor.Warning, "c: has no quorum"},
		"0 of 2 server(s) serve":          {[]zookeeper.Member{lost, away}, doctor.Problem, "quorum is lost"},
		"none of 2 server(s) answers":     {[]zookeeper.Member{away, away}, doctor.Problem, "whether they run"},
		"4 of 4 server(s) serve, a leads": {[]zookeeper.Member{leads, follows, follows, {Address: "o", Mode: "observer"}}, doctor.OK, ""},
		"1 of 3 server(s) serve":          {[]zookeeper.Member{follows, away, away}, doctor.Warning, "more than half"},
	} {
		got := judgeEnsemble(c.members)
		if got.Status != c.want || got.Found != found || !strings.Contains(fmt.Sprint(got), c.words) {
			t.Errorf("%+v, want %q, %s, %q", got, found, c.want, c.words)
		}
	}
	if got := judgeEnsembleVersion([]zookeeper.Member{leads, follows, away}); got.Status != doctor.OK || got.Found != "ZooKeeper 3.8.0, 3.9.4" {
		t.Errorf("%+v", got)
	}
	for version, want := range map[string]doctor.Status{"3.5.9": doctor.Problem, "2.9": doctor.Problem, "3.6.0": doctor.OK, "4.0": doctor.OK, "": doctor.Unknown} {
		if got := judgeEnsembleVersion([]zookeeper.Member{{Address: "a", Version: version, Mode: "standalone"}}); got.Status != want {
			t.Errorf("%q: %+v, want %s", version, got, want)
		}
	}
}
