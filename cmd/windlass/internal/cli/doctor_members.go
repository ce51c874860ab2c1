package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/windlass-go/windlass/broker/etcd"
	"github.com/windlass-go/windlass/cmd/windlass/internal/doctor"
	"github.com/windlass-go/windlass/internal/view"
)

func memberName(m etcd.Member) string { return cmp.Or(m.Name, m.Endpoint) }

// judgeQuorum checks whether the cluster has a leader and all of its members.
func judgeQuorum(members []etcd.Member) doctor.Check {
	c := doctor.Check{Name: checkQuorum, Status: doctor.OK}
	voters, answering, partaking, leader := 0, 0, 0, ""
	strange := false
	newest := newestTerm(members)
	for _, m := range members {
		partakes := m.Err == nil && !m.Leaderless && m.Term == newest
		detail := ""
		switch {
		case m.Err != nil:
			detail = m.Err.Error()
		case m.Leaderless:
			detail = "knows no leader"
		case !partakes:
			detail = fmt.Sprintf("has not heard of the last election (its term is %d, that of others %d)", m.Term, newest)
		}
		if detail != "" {
			c.Details = append(c.Details, fmt.Sprintf("%s (%s): %s", memberName(m), m.Endpoint, detail))
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

// newestTerm returns the term of the last election that a member with a leader knows of.
func newestTerm(members []etcd.Member) (newest uint64) {
	for _, m := range members {
		if m.Err == nil && !m.Leaderless {
			newest = max(newest, m.Term)
		}
	}
	return newest
}

// versionFloors are the first patch versions of etcd 3, by minor version, without the bugs
// that end sessions early, renew ended ones, or skip the check of rights.
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
		versions = append(versions, m.Version)
		if status := versionStatus(m.Version); status != doctor.OK {
			if c.Status != doctor.Problem {
				c.Status = status
			}
			c.Details = append(c.Details, fmt.Sprintf("%s runs %s", memberName(m), m.Version))
			c.Do = "upgrade to 3.5.33, 3.6.14, 3.7.1 or newer: older ones have bugs that cost claims or rights"
		}
	}
	slices.Sort(versions)
	c.Found = "etcd " + strings.Join(slices.Compact(versions), ", ")
	if len(versions) == 0 {
		c.Status, c.Found = doctor.Unknown, "no member tells"
	}
	return c
}

// versionStatus judges one version such as "3.5.12" or "3.7.0-rc.1".
func versionStatus(version string) doctor.Status {
	release, candidate, _ := strings.Cut(version, "-")
	var major, minor, patch int
	if n, _ := fmt.Sscanf(release, "%d.%d.%d", &major, &minor, &patch); n < 3 {
		return doctor.Unknown
	}
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

// spaceWarning is the percentage of the quota from which on the doctor warns.
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
		if m.Quota == 0 || max(m.InUse, m.DBSize)*100 < m.Quota*spaceWarning {
			continue
		}
		c.Details = append(c.Details, memberName(m)+": "+usage(m))
		if m.InUse*100 >= m.Quota*spaceWarning {
			raise(doctor.Warning, "delete what is not needed, or raise etcd's --quota-backend-bytes")
		} else {
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
	// leasesExamined bounds the leases whose keys are counted.
	leasesExamined = 1000
	// bareWarning is the number of leases without a key from which on the doctor warns. A
	// node that dies right after the grant of its session leaves one, for a day.
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
	text := fmt.Sprintf("%s in use, in a file of %s", view.Size(m.InUse), view.Size(m.DBSize))
	if m.Quota == 0 {
		return text + "; the quota is not told"
	}
	return text + fmt.Sprintf("; %d %% of the quota of %s", m.InUse*100/m.Quota, view.Size(m.Quota))
}
