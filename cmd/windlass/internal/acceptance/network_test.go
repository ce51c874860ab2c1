//go:build e2e && linux

package acceptance

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// network is a machine room: a namespace with an address for each member and each node,
// all on one bridge, to which this process is connected as well.
//
// Each namespace has fixed neighbour entries. A cut sets a wrong hardware address in them, so
// that frames are lost and neither side gets an error.
//
// Everything but the host's end of one link is removed with the namespaces.
type network struct {
	t      *testing.T
	id     string     // begins every name
	first  netip.Addr // of a block of sixteen that nobody else on this host uses
	places []string   // members first, then nodes
}

// membersMax is how many members there are room for.
const membersMax = 3

// nobody is a hardware address that no interface has.
const nobody = "02:00:00:00:ff:ff"

// networks counts those of this process.
var networks int

// newNetwork makes one with places for members, and skips the test where that cannot be done.
func newNetwork(t *testing.T) *network {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root")
	}
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip("network namespaces need the program ip: ", err)
	}
	sweepNetworks(t)
	networks++
	n := &network{t: t, id: fmt.Sprintf("wl%d-%d", os.Getpid(), networks), first: freeBlock(t)}
	if err := n.try("", "netns add "+n.hub()); err != nil {
		t.Skip("network namespaces cannot be made here: ", err)
	}
	t.Cleanup(n.remove)
	n.ip("", fmt.Sprintf("link add %s type veth peer name test netns %s", n.id, n.hub()),
		fmt.Sprintf("addr add %s/28 dev %s", n.address(1), n.id),
		"link set "+n.id+" up")
	n.ip(n.hub(), "link add bridge type bridge", "link set bridge up", "link set test master bridge up")
	for m := range membersMax {
		n.add(memberName(m))
	}
	return n
}

func (n *network) hub() string { return n.id + "-hub" }

func (n *network) space(place string) string { return n.id + "-" + place }

// address is one of the block.
func (n *network) address(i int) netip.Addr {
	a := n.first.As4()
	a[3] += byte(i)
	return netip.AddrFrom4(a)
}

// at is the address of a place.
func (n *network) at(place string) netip.Addr { return n.address(2 + slices.Index(n.places, place)) }

func (n *network) mac(place string) string {
	return fmt.Sprintf("02:00:00:00:00:%02x", slices.Index(n.places, place))
}

func memberName(m int) string { return fmt.Sprintf("m%d", m) }

// on returns a command line that runs another one in a namespace. nsenter replaces itself, so
// that the process ID stays the same.
func on(space string, argv ...string) []string {
	// "ip netns exec" would hide the control groups, with the rest of /sys.
	return append([]string{"nsenter", "--net=" + namespaces + "/" + space}, argv...)
}

// add makes a place and connects it.
func (n *network) add(place string) {
	n.t.Helper()
	port := fmt.Sprintf("p%d", len(n.places))
	n.places = append(n.places, place)
	n.ip("", "netns add "+n.space(place))
	n.ip(n.hub(), fmt.Sprintf("link add %s type veth peer name eth0 address %s netns %s", port, n.mac(place), n.space(place)),
		fmt.Sprintf("link set %s master bridge up", port))
	n.ip(n.space(place), fmt.Sprintf("addr add %s/28 dev eth0", n.at(place)), "link set lo up", "link set eth0 up")
	n.heal(place)
}

// fault is a way in which a node and members do not reach each other.
type fault int

const (
	// silence loses what either side sends.
	silence fault = iota
	// requestsLost loses what the place sends; it still hears the members.
	requestsLost
	// repliesLost loses what the members send; they do what the place asks for.
	repliesLost
	// refused tells the place at once that there is no way.
	refused
)

func (f fault) String() string {
	return [...]string{"silence", "requests lost", "replies lost", "refused"}[f]
}

// cut makes a fault between a place and some members, or all others if none is named.
func (n *network) cut(place string, f fault, members ...int) {
	n.t.Helper()
	for _, member := range n.others(place, members) {
		if f == silence || f == requestsLost {
			n.ip(n.space(place), n.neighbour(member, nobody))
		}
		if f == silence || f == repliesLost {
			n.ip(n.space(member), n.neighbour(place, nobody))
		}
		if f == refused {
			n.ip(n.space(place), fmt.Sprintf("route replace unreachable %s/32", n.at(member)))
		}
	}
}

// heal ends all faults between a place and members.
func (n *network) heal(place string) {
	n.t.Helper()
	for _, member := range n.others(place, nil) {
		n.ip(n.space(place), n.neighbour(member, n.mac(member)))
		n.ip(n.space(member), n.neighbour(place, n.mac(place)))
		// As a rule there is no such route.
		_ = n.try(n.space(place), fmt.Sprintf("route del unreachable %s/32", n.at(member)))
	}
}

// others returns the named members, or all, without the place itself.
func (n *network) others(place string, members []int) []string {
	var all []string
	for m := range membersMax {
		name := memberName(m)
		if name != place && slices.Contains(n.places, name) && (len(members) == 0 || slices.Contains(members, m)) {
			all = append(all, name)
		}
	}
	return all
}

// neighbour says who has the address of a place.
func (n *network) neighbour(place, mac string) string {
	return fmt.Sprintf("neigh replace %s lladdr %s dev eth0 nud permanent", n.at(place), mac)
}

// ip runs commands of the program ip in a namespace, or outside of all.
func (n *network) ip(space string, lines ...string) {
	n.t.Helper()
	must(n.t, n.try(space, lines...))
}

func (n *network) try(space string, lines ...string) error {
	args := []string{"-batch", "-"}
	if space != "" {
		args = append([]string{"-n", space}, args...)
	}
	cmd := exec.Command("ip", args...)
	cmd.Stdin = strings.NewReader(strings.Join(lines, "\n") + "\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("ip in %q: %q: %w: %s", space, lines, err, bytes.TrimSpace(out))
	}
	return nil
}

// remove takes everything down. The processes in it have ended by then.
func (n *network) remove() { removeSpaces(n.t, n.id) }

// namespaces is where the program ip keeps them.
const namespaces = "/run/netns"

// sweepNetworks removes what a killed process of these tests has left behind.
func sweepNetworks(t *testing.T) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(namespaces, "wl*-*-*"))
	must(t, err)
	for _, name := range names {
		id := filepath.Base(name)
		pid, err := strconv.Atoi(strings.TrimPrefix(strings.Split(id, "-")[0], "wl"))
		if err != nil || syscall.Kill(pid, 0) == nil {
			continue // not ours, or in use
		}
		t.Logf("removing the namespace %s of a run that is gone", id)
		removeSpaces(t, id[:strings.LastIndexByte(id, '-')])
	}
}

// removeSpaces removes the namespaces of one network, and whoever is in them.
func removeSpaces(t *testing.T, id string) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(namespaces, id+"-*"))
	must(t, err)
	for _, name := range names {
		space := filepath.Base(name)
		inside, _ := exec.Command("ip", "netns", "pids", space).Output() // none if it is half made
		for pid := range strings.FieldsSeq(string(inside)) {
			if p, err := strconv.Atoi(pid); err == nil {
				t.Logf("killing process %d in %s", p, space)
				_ = syscall.Kill(p, syscall.SIGKILL)
			}
		}
		if out, err := exec.Command("ip", "netns", "del", space).CombinedOutput(); err != nil {
			t.Errorf("remove namespace %s: %v: %s", space, err, out)
		}
	}
	// It goes with the hub, a moment later.
	_ = exec.Command("ip", "link", "del", id).Run()
}

// freeBlock finds sixteen addresses that nobody here uses, in the range that is
// set aside for benchmarks.
func freeBlock(t *testing.T) netip.Addr {
	t.Helper()
	used, err := net.InterfaceAddrs()
	must(t, err)
	for range 1000 {
		block := netip.PrefixFrom(netip.AddrFrom4([4]byte{198, byte(18 + rand.IntN(2)), byte(rand.IntN(256)), byte(16 * rand.IntN(16))}), 28)
		if !slices.ContainsFunc(used, func(a net.Addr) bool {
			p, err := netip.ParsePrefix(a.String())
			return err == nil && p.Overlaps(block)
		}) {
			return block.Addr()
		}
	}
	t.Fatal("no free block of addresses in 198.18.0.0/15")
	return netip.Addr{}
}
