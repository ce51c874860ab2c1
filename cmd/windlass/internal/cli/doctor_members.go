package cli

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/windlass-go/windlass/broker/etcd"
	"github.com/windlass-go/windlass/cmd/windlass/internal/doctor"
)

// memberName is how a member is called in a report.
func memberName(m etcd.Member) string {
	if m.Name == "" {
		return m.Endpoint
	}
	return m.Name
}

// judgeQuorum tells whether the cluster can decide, and how many members it can
// still lose.
func judgeQuorum(members []etcd.Member) doctor.Check {
	c := doctor.Check{Name: checkQuorum, Status: doctor.OK}
	voters, answering, partaking, leader := 0, 0, 0, ""
	strange := false
	newest := newestTerm(members)
	for _, m := range members {
		partakes := m.Err == nil && !m.Leaderless && m.Term == newest
		switch {
		case m.Err != nil:
			c.Details = append(c.Details, fmt.Sprintf("%s (%s): %v", memberName(m), m.Endpoint, m.Err))
		case m.Leaderless:
			c.Details = append(c.Details, fmt.Sprintf("%s (%s): knows no leader", memberName(m), m.Endpoint))
		case !partakes:
			c.Details = append(c.Details, fmt.Sprintf("%s (%s): has not heard of the last election (its term is %d, that of others %d)",
				memberName(m), m.Endpoint, m.Term, newest))
		}
		if m.ID == 0 {
			strange = true
		}
		if m.Learner {
			continue
		}
		voters++
		if m.Err == nil {
			answering++
		}
		if partakes {
			partaking++
		}
		if partakes && m.Leader {
			leader = memberName(m)
		}
	}
	c.Found = fmt.Sprintf("%d of %d member(s) answer", answering, voters)
	if leader != "" && partaking < answering {
		c.Found += fmt.Sprintf(" and %d take part", partaking)
	}
	if answering == 0 {
		c.Status, c.Found, c.Do = doctor.Problem, fmt.Sprintf("none of %d member(s) answers", voters), "see whether they run, and look at the network"
		return c
	}
	switch needed := voters/2 + 1; {
	case leader == "" && answering < needed:
		c.Status, c.Do = doctor.Problem, fmt.Sprintf("quorum is lost: start members until %d of %d are there", needed, voters)
	case leader == "":
		c.Status, c.Do = doctor.Problem, "nobody leads: see whether the members reach each other"
	case answering < voters || strange:
		c.Status, c.Do = doctor.Warning, fmt.Sprintf("see to what does not answer: %d must be there", needed)
	case partaking < answering:
		c.Status, c.Do = doctor.Warning, fmt.Sprintf("see whether the members reach each other: %d must", needed)
	}
	if leader != "" {
		c.Found += ", " + leader + " leads"
	}
	return c
}

// newestTerm is that of the last election among those who know its leader.
func newestTerm(members []etcd.Member) (newest uint64) {
	for _, m := range members {
		if m.Err == nil && !m.Leaderless {
			newest = max(newest, m.Term)
		}
	}
	return newest
}

// versionFloors are the first versions of etcd, by minor version, that neither end
// sessions early nor renew ended ones, nor let through who has no rights.
var versionFloors = map[int]int{5: 33, 6: 14, 7: 1}

// The oldest and the newest minor version in versionFloors.
const (
	minorOldest = 5
	minorNewest = 7
)

func judgeVersion(members []etcd.Member) doctor.Check {
	c := doctor.Check{Name: checkVersion, Status: doctor.OK}
	var versions []string
	for _, m := range members {
		if m.Err != nil {
			continue
		}
		if !slices.Contains(versions, m.Version) {
			versions = append(versions, m.Version)
		}
		if status := versionStatus(m.Version); status != doctor.OK {
			if c.Status != doctor.Problem {
				c.Status = status
			}
			c.Details = append(c.Details, fmt.Sprintf("%s runs %s", memberName(m), m.Version))
			c.Do = "upgrade to 3.5.33, 3.6.14, 3.7.1 or newer: older ones have bugs that cost claims or rights"
		}
	}
	slices.Sort(versions)
	c.Found = "etcd " + strings.Join(versions, ", ")
	if len(versions) == 0 {
		c.Status, c.Found = doctor.Unknown, "no member tells"
	}
	return c
}

// versionStatus judges one version such as "3.5.12" or "3.7.0-rc.1".
func versionStatus(version string) doctor.Status {
	release, candidate, _ := strings.Cut(version, "-")
	parts := strings.Split(release, ".")
	var n [3]int
	for i := range n {
		var err error
		if i >= len(parts) {
			return doctor.Unknown
		}
		if n[i], err = strconv.Atoi(parts[i]); err != nil {
			return doctor.Unknown
		}
	}
	major, minor, patch := n[0], n[1], n[2]
	if candidate != "" {
		patch-- // it comes before the release
	}
	switch {
	case major < 3 || major == 3 && minor < minorOldest:
		return doctor.Problem
	case major > 3 || minor > minorNewest || patch >= versionFloors[minor]:
		return doctor.OK
	}
	return doctor.Warning
}

// spaceWarning is the share of the quota, in percent, from which on to act.
const spaceWarning = 80

func judgeSpace(members []etcd.Member) doctor.Check {
	c := doctor.Check{Name: checkSpace, Status: doctor.OK}
	var fullest etcd.Member
	answering := 0
	raise := func(to doctor.Status, do string) {
		if c.Status != doctor.Problem {
			c.Status, c.Do = to, do
		}
	}
	for _, m := range members {
		if m.Err != nil {
			continue
		}
		answering++
		if fullest.DBSize <= m.DBSize {
			fullest = m
		}
		if len(m.Alarms) > 0 {
			c.Details = append(c.Details, fmt.Sprintf("%s knows of the alarm(s) %s", memberName(m), strings.Join(m.Alarms, ", ")))
			raise(doctor.Problem, alarmAdvice(m.Alarms))
		}
		switch {
		case m.Quota == 0:
		case m.InUse*100 >= m.Quota*spaceWarning:
			c.Details = append(c.Details, memberName(m)+": "+usage(m))
			raise(doctor.Warning, "delete what is not needed, or raise etcd's --quota-backend-bytes")
		case m.DBSize*100 >= m.Quota*spaceWarning:
			c.Details = append(c.Details, memberName(m)+": "+usage(m))
			raise(doctor.Warning, "compact the history and defragment each member (etcdctl compact, etcdctl defrag): most of the file is unused")
		}
	}
	if answering == 0 {
		c.Status, c.Found = doctor.Unknown, "no member tells"
		return c
	}
	c.Found = usage(fullest)
	return c
}

const (
	// leasesExamined bounds the leases that are asked what they hold.
	leasesExamined = 1000
	// bareWarning is of how many without a key the doctor warns. A node that dies between
	// the grant of its session and the first keys of it leaves one, for a day.
	bareWarning = 100
)

func judgeLeases(all, bare int, err error) doctor.Check {
	c := doctor.Check{Name: checkLeases, Status: doctor.OK, Found: fmt.Sprintf("%d, of which %d hold no key", all, bare)}
	if all > leasesExamined {
		c.Found = fmt.Sprintf("%d, and of %d of them %d hold no key", all, leasesExamined, bare)
	}
	switch {
	case err != nil:
		c.Status, c.Found = doctor.Unknown, err.Error()
	case bare >= bareWarning:
		c.Status, c.Do = doctor.Warning, "find out what grants leases and does not revoke them (etcdctl lease list); they end when their time is over"
	}
	return c
}

func alarmAdvice(alarms []string) string {
	if slices.Contains(alarms, etcd.AlarmNoSpace) {
		return `writes are refused; "windlass doctor --fix" frees what nothing uses and disarms the alarm`
	}
	return "see etcd's manual for this alarm"
}

func usage(m etcd.Member) string {
	text := fmt.Sprintf("%s in use, in a file of %s", size(m.InUse), size(m.DBSize))
	if m.Quota == 0 {
		return text + "; the quota is not told"
	}
	return text + fmt.Sprintf("; %d %% of the quota of %s", m.InUse*100/m.Quota, size(m.Quota))
}

// size is a number of bytes, as people say it.
func size(bytes int64) string {
	const kib, mib, gib = 1 << 10, 1 << 20, 1 << 30
	switch n := float64(bytes); {
	case bytes >= gib:
		return fmt.Sprintf("%.1f GiB", n/gib)
	case bytes >= mib:
		return fmt.Sprintf("%.1f MiB", n/mib)
	default:
		return fmt.Sprintf("%.0f KiB", n/kib)
	}
}
