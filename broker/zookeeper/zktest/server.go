package zktest

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Options configure a server. The zero value works.
type Options struct {
	// Tick is the server's tickTime; session timeouts are 2 to 20 ticks. Zero means
	// 200 ms.
	Tick time.Duration
	// MessageBytesMax is jute.maxbuffer. Zero means MessageBytesDefault; the server's own
	// default is 1 MiB.
	MessageBytesMax int
	// Settings are further lines of zoo.cfg.
	Settings []string
	// Hosts are where the members of an ensemble run. None means that all run on free
	// ports of 127.0.0.1.
	Hosts []Host
}

// Host is where one member of an ensemble runs.
type Host struct {
	// Address is the address it listens on, with the ports 2181, 2888 and 3888.
	Address string
	// Command is put before the command line of the server, to run it somewhere else: as
	// in "ip netns exec NAME". It must become the server by exec.
	Command []string
}

// MessageBytesDefault is the default of Options.MessageBytesMax, in bytes.
const MessageBytesDefault = 4 << 20

// patience limits the start of a server, on a loaded machine.
const patience = time.Minute

// jars are the files that a server needs besides those that ZooKeeper's own jar names. The
// second may be missing; then the server logs nothing.
var jars = []string{"/usr/share/java/zookeeper.jar", "/usr/share/java/slf4j-simple.jar"}

// skip skips a test if Java or ZooKeeper is missing.
func skip(t testing.TB) {
	t.Helper()
	if _, err := exec.LookPath("java"); err != nil {
		t.Skip("there is no java: install default-jre-headless")
	}
	if _, err := os.Stat(jars[0]); err != nil {
		t.Skip("there is no ZooKeeper in " + filepath.Dir(jars[0]) + ": install zookeeper")
	}
}

// Server is one ZooKeeper server.
type Server struct {
	dir     string
	address string
	options Options
	command []string // put before its command line
	// remove is the folder to remove in the end, if any.
	remove string
	shell  *exec.Cmd
	stdin  io.WriteCloser
	pid    int
}

// Start runs a server for a test, or skips it.
func Start(t testing.TB, options Options) *Server {
	t.Helper()
	skip(t)
	s, err := (&Server{dir: t.TempDir(), options: options}).start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Kill)
	return s
}

// start runs a server on a free port and returns it when it answers.
func (s *Server) start() (*Server, error) {
	ports, err := freePorts(1)
	if err != nil {
		return nil, err
	}
	s.address = net.JoinHostPort("127.0.0.1", strconv.Itoa(ports[0]))
	if err := s.configure(); err != nil {
		return nil, err
	}
	return s, errors.Join(s.Run(), s.Wait())
}

// shared is the server of Shared.
var shared = sync.OnceValues(func() (*Server, error) {
	dir, err := os.MkdirTemp("", "zookeeper-")
	if err != nil {
		return nil, err
	}
	// Sessions may be as long as Windlass allows.
	return (&Server{dir: dir, remove: dir, options: Options{Tick: time.Second, Settings: []string{"maxSessionTimeout=600000"}}}).start()
})

// Shared returns a server that all tests of a process use, each below its own chroot; its
// tickTime is a second. It ends with the process.
func Shared(t testing.TB) *Server {
	t.Helper()
	skip(t)
	s, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// configure writes the server's files.
func (s *Server) configure() error {
	host, port, err := net.SplitHostPort(s.address)
	if err != nil {
		return err
	}
	lines := append([]string{
		fmt.Sprintf("tickTime=%d", cmp.Or(s.options.Tick, 200*time.Millisecond).Milliseconds()),
		"dataDir=" + s.data(),
		"clientPort=" + port, "clientPortAddress=" + host,
		"admin.enableServer=false", "4lw.commands.whitelist=*", "maxClientCnxns=0",
	}, s.options.Settings...)
	if err := os.MkdirAll(s.data(), 0o700); err != nil {
		return err
	}
	return os.WriteFile(s.config(), []byte(strings.Join(lines, "\n")+"\n"), 0o600)
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

func (s *Server) backup() string { return filepath.Join(s.dir, "backup") }

func (s *Server) config() string { return filepath.Join(s.dir, "zoo.cfg") }

// keeper runs a server, prints its process ID, and kills it when its own standard
// input ends. Then it removes the folder, if one is given.
const keeper = `rm=$1; log=$2; shift 2; "$@" >>"$log" 2>&1 </dev/null & echo $!; cat >/dev/null; kill -9 $! 2>/dev/null; wait; [ -z "$rm" ] || rm -rf "$rm"`

// Run starts the server's process, again if it was killed.
func (s *Server) Run() error {
	arguments := append([]string{"-c", keeper, "keeper", s.remove, s.Log()}, s.command...)
	s.shell = exec.Command("sh", append(arguments, "java", "-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dzookeeper.forceSync=no",
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Dznode.container.checkIntervalMs=1000",
		"-Djute.maxbuffer="+strconv.Itoa(cmp.Or(s.options.MessageBytesMax, MessageBytesDefault)),
		"-cp", strings.Join(jars, ":"), "org.apache.zookeeper.server.quorum.QuorumPeerMain", s.config())...)
	stdin, err := s.shell.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := s.shell.StdoutPipe()
	if err != nil {
		return err
	}
	if err := s.shell.Start(); err != nil {
		return err
	}
	s.stdin = stdin
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		return fmt.Errorf("start zookeeper: %w", err)
	}
	s.pid, err = strconv.Atoi(strings.TrimSpace(line))
	return err
}

// Wait returns when the server answers and has a quorum.
func (s *Server) Wait() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for s.Mode(ctx) == "" {
		select {
		case <-tick.C:
		case <-ctx.Done():
			log, _ := os.ReadFile(s.Log())
			return fmt.Errorf("zookeeper does not answer at %s:\n%s", s.address, log)
		}
	}
	return nil
}

// Mode returns "leader", "follower" or "standalone", and "" if the server does not answer
// or has no quorum.
func (s *Server) Mode(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", s.address)
	if err != nil {
		return ""
	}
	defer func() { _ = conn.Close() }()
	deadline, _ := ctx.Deadline()
	_ = conn.SetDeadline(deadline)
	if _, err := conn.Write([]byte("srvr")); err != nil {
		return ""
	}
	answer, _ := io.ReadAll(conn)
	_, after, _ := strings.Cut(string(answer), "Mode: ")
	mode, _, _ := strings.Cut(after, "\n")
	return mode
}

// Log returns the file with the server's output.
func (s *Server) Log() string { return filepath.Join(s.dir, "log") }

// Alive reports whether the server's process exists, frozen or not. It reads /proc, so it
// works only on Linux.
func (s *Server) Alive() bool {
	if s.stdin == nil {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.pid))
	if err != nil {
		return false
	}
	// The state is behind the name, which is in brackets. A process that has ended
	// stays as a zombie until Kill.
	return !strings.HasPrefix(string(stat[bytes.LastIndexByte(stat, ')')+1:]), " Z")
}

// Address returns "host:port" of the server.
func (s *Server) Address() string { return s.address }

// Kill ends the server as a power failure would. It may be started again.
func (s *Server) Kill() {
	if s.stdin == nil {
		return
	}
	_ = syscall.Kill(s.pid, syscall.SIGKILL)
	_ = s.stdin.Close()
	_ = s.shell.Wait()
	s.stdin = nil
}

// Save makes a backup of the server's data. The server may be running.
func (s *Server) Save() error { return os.CopyFS(s.backup(), os.DirFS(s.data())) }

// Restore replaces the server's data by the backup. The server must have been killed.
func (s *Server) Restore() error {
	if err := os.RemoveAll(s.data()); err != nil {
		return err
	}
	return os.CopyFS(s.data(), os.DirFS(s.backup()))
}

// Freeze suspends the server's process: its connections stay open and silent.
func (s *Server) Freeze() error { return syscall.Kill(s.pid, syscall.SIGSTOP) }

// Thaw resumes a frozen server.
func (s *Server) Thaw() error { return syscall.Kill(s.pid, syscall.SIGCONT) }

// freePorts returns ports that nobody listens on.
func freePorts(n int) ([]int, error) {
	var ports []int
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer func() { _ = l.Close() }() // all at the end, so that they differ
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}
