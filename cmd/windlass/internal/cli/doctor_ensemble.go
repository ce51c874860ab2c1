package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/windlass-go/windlass/broker/zookeeper"
	"github.com/windlass-go/windlass/cmd/windlass/internal/doctor"
)

// judgeEnsemble checks whether the servers of a ZooKeeper ensemble serve, which they do only
// with a quorum. They do not report its size.
func judgeEnsemble(members []zookeeper.Member) doctor.Check {
	c := doctor.Check{Name: checkQuorum, Status: doctor.OK}
	answering, serving, leader := 0, 0, ""
	for _, m := range members {
		switch {
		case m.Err != nil:
			c.Details = append(c.Details, fmt.Sprintf("%s: %v", m.Address, m.Err))
			continue
		case m.Mode == "":
			c.Details = append(c.Details, m.Address+": has no quorum")
		case m.Mode == "leader":
			leader = m.Address
		}
		answering++
		if m.Mode != "" {
			serving++
		}
	}
	c.Found = fmt.Sprintf("%d of %d server(s) serve", serving, len(members))
	if leader != "" {
		c.Found += ", " + leader + " leads"
	}
	switch {
	case answering == 0:
		c.Status, c.Found, c.Do = doctor.Problem, fmt.Sprintf("none of %d server(s) answers", len(members)), "see whether they run, and look at the network"
	case serving == 0:
		c.Status, c.Do = doctor.Problem, "quorum is lost: start servers until more than half of the ensemble are there, and see whether they reach each other"
	case serving < len(members):
		c.Status, c.Do = doctor.Warning, "see to those that do not serve: more than half must"
	}
	return c
}

// ensembleMajor and ensembleMinor are the oldest version that the broker works with.
const (
	ensembleMajor = 3
	ensembleMinor = 6
)

func judgeEnsembleVersion(members []zookeeper.Member) doctor.Check {
	c := doctor.Check{Name: checkVersion, Status: doctor.OK}
	var versions []string
	for _, m := range members {
		if m.Version == "" {
			continue
		}
		versions = append(versions, m.Version)
		var major, minor int
		if n, _ := fmt.Sscanf(m.Version, "%d.%d", &major, &minor); n == 2 && (major < ensembleMajor || major == ensembleMajor && minor < ensembleMinor) {
			c.Status, c.Do = doctor.Problem, fmt.Sprintf("upgrade to %d.%d or newer: older ones have no watches of whole subtrees", ensembleMajor, ensembleMinor)
			c.Details = append(c.Details, fmt.Sprintf("%s runs %s", m.Address, m.Version))
		}
	}
	slices.Sort(versions)
	c.Found = "ZooKeeper " + strings.Join(slices.Compact(versions), ", ")
	if len(versions) == 0 {
		c.Status, c.Found = doctor.Unknown, "no server tells"
	}
	return c
}
