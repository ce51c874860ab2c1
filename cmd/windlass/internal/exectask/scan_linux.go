package exectask

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"
	"syscall"
	"time"
)

// measures reports whether this system says what a process uses.
const measures = true

// cpuTick is the unit of CPU time in /proc, the same on every system that Go supports.
const cpuTick = 10 * time.Millisecond

var pageSize = int64(os.Getpagesize())

// proc is one process as /proc showed it.
type proc struct {
	pid, ppid, pgrp, sid int
	start                uint64        // ticks since boot; with pid it identifies a process
	cpu                  time.Duration // with that of the children that it has waited for
	memory               int64         // resident, in bytes
	zombie               bool
	dying                bool   // it has got SIGKILL or another fatal signal, or is exiting
	owner                string // run that it descends from or whose group it is in, if known
	marker               string // its WINDLASS_RUN or its topmost ancestor's, if owner is empty
}

// flagExiting is the kernel's PF_EXITING.
const flagExiting = 0x4

var errStat = errors.New("/proc/<pid>/stat is not as expected")

// gone reports whether an error means that a process has ended. Any other error must not
// end a run, as its processes may live.
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

// parseStat reads the fields that are needed. The name is in parentheses and may itself
// have some, so it ends at the last one.
func parseStat(raw []byte) (proc, error) {
	open, end := bytes.IndexByte(raw, ' '), bytes.LastIndexByte(raw, ')')
	if open < 0 || end < open {
		return proc{}, errStat
	}
	fields := bytes.Fields(raw[end+1:])
	if len(fields) < 29 {
		return proc{}, errStat
	}
	var numbers [12]uint64
	for i, text := range [][]byte{raw[:open], fields[1], fields[2], fields[3], fields[19], fields[11], fields[12], fields[13], fields[14], fields[21], fields[6], fields[28]} {
		n, err := strconv.ParseUint(string(text), 10, 64)
		if err != nil {
			return proc{}, errStat
		}
		numbers[i] = n
	}
	state := fields[0][0]
	return proc{
		pid: int(numbers[0]), ppid: int(numbers[1]), pgrp: int(numbers[2]), sid: int(numbers[3]), start: numbers[4],
		cpu: time.Duration(numbers[5]+numbers[6]+numbers[7]+numbers[8]) * cpuTick, memory: int64(numbers[9]) * pageSize,
		zombie: state == 'Z' || state == 'X',
		dying:  numbers[10]&flagExiting != 0 || numbers[11]&(1<<(syscall.SIGKILL-1)) != 0,
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

// scan lists the descendants of this process, each with its run. Runs maps the process IDs
// of programs, which are also their groups', to runs.
//
// The table is not read at one instant: a process whose parent died meanwhile seems to have
// no ancestors, and is read again.
func scan(runs map[int]string) ([]proc, error) {
	table, err := processes()
	if err != nil {
		return nil, err
	}
	self := os.Getpid()
	var found []proc
	for _, pid := range slices.Collect(maps.Keys(table)) { // topOf adds to it
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

// climbMax bounds the climb from a process to its topmost ancestor, since the chain may
// change meanwhile.
const climbMax = 4096

// topOf returns the ancestor of pid that is a child of self, zero if there is none.
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

// attribute finds the run of p by its ancestor, its group or the marker in its environment,
// in this order. A process that lost its parents, left its group and cleared its
// environment has none.
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
