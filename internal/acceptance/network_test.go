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

// network is a machine room in network namespaces:
//
//	test --- host link --- hub: the members, each with an address
//	                        |  |  |
//	                       n1 n2 n3: a namespace for each node
//
// Members have the same addresses for everyone. A node has a route of its own
// to each of them, over a gateway that does not exist: only the hardware
// address that the gateway is said to have leads to the hub. A wrong one sends
// frames to nobody, so that what is cut is lost without a word to either side.
//
// But for the host's end of one link, all of it goes with the namespaces.
type network struct {
	t     *testing.T
	id    string     // begins every name
	first netip.Addr // of a block of sixteen that nobody else on this host uses
	nodes []string   // by number
}

// membersMax is how many members the address plan has room for.
const membersMax = 3

// nobody is a hardware address that no interface has.
const nobody = "02:00:00:00:ff:ff"

// networks counts those of this process.
var networks int

// newNetwork makes a hub, and skips the test where that cannot be done.
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
	lines := []string{"link set lo up", fmt.Sprintf("addr add %s/28 dev test", n.address(2)), "link set test up"}
	for m := range membersMax {
		lines = append(lines, fmt.Sprintf("addr add %s/28 dev test", n.member(m)))
	}
	n.ip(n.hub(), lines...)
	return n
}

func (n *network) hub() string { return n.id + "-hub" }

func (n *network) space(node string) string { return n.id + "-" + node }

// address is one of the block.
func (n *network) address(i byte) netip.Addr {
	a := n.first.As4()
	a[3] += i
	return netip.AddrFrom4(a)
}

// member is the address of a member, for everyone.
func (n *network) member(m int) netip.Addr { return n.address(byte(3 + m)) }

// on is a command line that runs another one in a namespace. The program nsenter
// turns into that one, so that the process is the one that was started.
func on(space string, argv ...string) []string {
	// "ip netns exec" would hide the control groups, with the rest of /sys.
	return append([]string{"nsenter", "--net=" + namespaces + "/" + space}, argv...)
}

// add makes a namespace for a node and connects it.
func (n *network) add(node string) {
	n.t.Helper()
	k := len(n.nodes)
	n.nodes = append(n.nodes, node)
	n.ip("", "netns add "+n.space(node))
	n.ip("", fmt.Sprintf("link add n%d netns %s address %s type veth peer name eth0 netns %s", k, n.hub(), hubMAC(k), n.space(node)))
	n.ip(n.hub(), fmt.Sprintf("addr add 10.99.%d.1/28 dev n%d", k, k), fmt.Sprintf("link set n%d up", k))
	n.ip(n.space(node), "link set eth0 address "+nodeMAC(k), fmt.Sprintf("addr add 10.99.%d.2/28 dev eth0", k), "link set lo up", "link set eth0 up")
	n.heal(node)
}

func hubMAC(k int) string  { return fmt.Sprintf("02:00:00:00:%02x:01", k) }
func nodeMAC(k int) string { return fmt.Sprintf("02:00:00:00:%02x:02", k) }

// fault is a way in which a node and members do not reach each other.
type fault int

const (
	// silence loses what either side sends.
	silence fault = iota
	// requestsLost loses what the node sends; it still hears the members.
	requestsLost
	// repliesLost loses what the members send, all of them; they do what the
	// node asks for.
	repliesLost
	// refused tells the node at once that there is no way.
	refused
)

func (f fault) String() string {
	return [...]string{"silence", "requests lost", "replies lost", "refused"}[f]
}

// cut makes a fault between a node and some members, or all if none is named.
func (n *network) cut(node string, f fault, members ...int) {
	n.t.Helper()
	if len(members) == 0 {
		members = []int{0, 1, 2}
	}
	k := slices.Index(n.nodes, node)
	var lines []string
	for _, m := range members {
		switch f {
		case silence, requestsLost:
			lines = append(lines, gateway(k, m, nobody))
		case refused:
			lines = append(lines, fmt.Sprintf("route replace unreachable %s/32", n.member(m)))
		case repliesLost: // has no line for each member
		}
	}
	n.ip(n.space(node), lines...)
	if f == repliesLost || f == silence && len(members) == membersMax {
		n.ip(n.hub(), hearing(k, nobody))
	}
}

// heal ends all faults of a node.
func (n *network) heal(node string) {
	n.t.Helper()
	k := slices.Index(n.nodes, node)
	var lines []string
	for m := range membersMax {
		lines = append(lines, gateway(k, m, hubMAC(k)))
	}
	n.ip(n.space(node), lines...)
	n.ip(n.hub(), hearing(k, nodeMAC(k)))
	for m := range membersMax {
		// There is at most one such route, and as a rule none.
		_ = n.try(n.space(node), fmt.Sprintf("route del unreachable %s/32", n.member(m)))
		n.ip(n.space(node), fmt.Sprintf("route replace %s/32 via 10.99.%d.%d dev eth0", n.member(m), k, 3+m))
	}
}

// gateway says who a node's gateway to a member is.
func gateway(k, m int, mac string) string {
	return fmt.Sprintf("neigh replace 10.99.%d.%d lladdr %s dev eth0 nud permanent", k, 3+m, mac)
}

// hearing says who a node is, to the hub.
func hearing(k int, mac string) string {
	return fmt.Sprintf("neigh replace 10.99.%d.2 lladdr %s dev n%d nud permanent", k, mac, k)
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
