package exectask

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"strconv"
	"syscall"
)

// proc is one process as /proc showed it.
type proc struct {
	pid, ppid, pgrp, sid int
	start                uint64 // ticks since boot; with pid it identifies a process
	zombie               bool
	owner                string // the run it descends from or whose group it is in, if known
	marker               string // WINDLASS_RUN of it or of its topmost ancestor, if owner is empty
}

var errStat = errors.New("/proc/<pid>/stat is not as expected")

// gone tells a process that has ended from one that could not be read: taking
// the second for the first would end a run whose processes live.
func gone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH)
}

// readStat reads one process.
func readStat(pid int) (proc, error) {
	raw, err := os.ReadFile(procPath(pid, "stat"))
	if err != nil {
		return proc{}, err
	}
	return parseStat(raw)
}

// parseStat reads the fields that count. The name stands in parentheses and
// may itself hold any of them, so the last one is looked for.
func parseStat(raw []byte) (proc, error) {
	open, end := bytes.IndexByte(raw, ' '), bytes.LastIndexByte(raw, ')')
	if open < 0 || end < open {
		return proc{}, errStat
	}
	fields := bytes.Fields(raw[end+1:])
	if len(fields) < 20 {
		return proc{}, errStat
	}
	var numbers [5]uint64
	for i, text := range [][]byte{raw[:open], fields[1], fields[2], fields[3], fields[19]} {
		n, err := strconv.ParseUint(string(text), 10, 64)
		if err != nil {
			return proc{}, errStat
		}
		numbers[i] = n
	}
	state := fields[0][0]
	return proc{
		pid: int(numbers[0]), ppid: int(numbers[1]), pgrp: int(numbers[2]), sid: int(numbers[3]), start: numbers[4],
		zombie: state == 'Z' || state == 'X',
	}, nil
}

// processes reads the whole table.
func processes() (map[int]*proc, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	names, err := dir.Readdirnames(-1)
	dir.Close() // before the next is opened: files may be scarce
	if err != nil {
		return nil, err
	}
	table := make(map[int]*proc, len(names))
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		p, err := readStat(pid)
		if gone(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		table[pid] = &p
	}
	return table, nil
}

// scan lists the descendants of this process with the run that each belongs
// to. Runs maps the number of a run's program, which is its group's, to the
// run.
//
// The table is not read at one instant: a process whose parent died between
// their two readings seems to descend from nobody, and is read again.
func scan(runs map[int]string) ([]proc, error) {
	table, err := processes()
	if err != nil {
		return nil, err
	}
	pids := make([]int, 0, len(table))
	for pid := range table {
		pids = append(pids, pid)
	}
	self := os.Getpid()
	var found []proc
	for _, pid := range pids {
		top, err := topOf(table, pid, self)
		if err != nil {
			return nil, err
		}
		if top == 0 {
			continue
		}
		p := *table[pid]
		p.owner, p.marker = attribute(&p, table[top], runs)
		found = append(found, p)
	}
	return found, nil
}

// climbMax bounds the climb from a process to its topmost ancestor, and with
// it what a chain that changes while we look can cost.
const climbMax = 4096

// topOf climbs from pid to the ancestor that is a child of self; zero means
// that there is none.
func topOf(table map[int]*proc, pid, self int) (int, error) {
	if pid == self {
		return 0, nil
	}
	at := pid
	for range climbMax {
		p := table[at]
		switch {
		case p.ppid == self:
			return at, nil
		case p.ppid <= 1:
			return 0, nil
		case table[p.ppid] != nil:
			at = p.ppid
			continue
		}
		// The parent was forked after the table was read, or p was adopted.
		parent, err := readStat(p.ppid)
		if err == nil {
			table[p.ppid] = &parent
			continue
		}
		if !gone(err) {
			return 0, err
		}
		again, err := readStat(at)
		if gone(err) || err == nil && (again.start != p.start || again.ppid == p.ppid) {
			return 0, nil
		}
		if err != nil {
			return 0, err
		}
		*p = again
	}
	return 0, nil
}

// attribute finds the run of p. Ancestry is the surest sign, then the group,
// then the marker in the environment; a process that cleared its environment,
// left its group and lost its parents has none.
func attribute(p, top *proc, runs map[int]string) (owner, marker string) {
	for _, pid := range []int{top.pid, top.pgrp, p.pgrp} {
		if id := runs[pid]; id != "" {
			return id, ""
		}
	}
	if p.zombie {
		return "", ""
	}
	if marker = readMarker(top.pid); marker == "" {
		marker = readMarker(p.pid)
	}
	return "", marker
}

// readMarker reads WINDLASS_RUN from the environment that a process was
// started with.
func readMarker(pid int) string {
	f, err := os.Open(procPath(pid, "environ"))
	if err != nil {
		return ""
	}
	defer f.Close()
	env, err := io.ReadAll(io.LimitReader(f, environMax))
	if err != nil {
		return ""
	}
	for entry := range bytes.SplitSeq(env, []byte{0}) {
		if value, ok := bytes.CutPrefix(entry, []byte(markerName+"=")); ok {
			return string(value)
		}
	}
	return ""
}
