package servers

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/windlass-go/windlass/bench/internal/proc"
)

// The ways in which Redis writes its log to disk.
const (
	// FsyncAlways is before a command is acknowledged.
	FsyncAlways = "always"
	// FsyncEverySecond is within a second: what was acknowledged meanwhile is lost
	// in a crash of the machine.
	FsyncEverySecond = "everysec"
)

// redisProgram is the server.
const redisProgram = "redis-server"

// MissingRedis says what has to be installed, nothing if all is there.
func MissingRedis() string {
	if _, err := exec.LookPath(redisProgram); err != nil {
		return "there is no Redis: install redis-server"
	}
	return ""
}

// RedisVersion is the installed server's, empty if it does not tell.
func RedisVersion() string { return versionOf(redisProgram) }

// Redis is a running server.
type Redis struct {
	// Address is "host:port", Password what it asks for.
	Address  string
	Password string
	child    *proc.Child
}

// StartRedis runs a server with its data in a folder. It writes an append-only
// file, and fsync says when that is on disk; it takes no snapshots besides.
func StartRedis(ctx context.Context, dir, fsync string) (*Redis, error) {
	path, err := exec.LookPath(redisProgram)
	if err != nil {
		return nil, errors.New(MissingRedis())
	}
	free, err := ports(1)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	r := &Redis{Address: fmt.Sprintf("127.0.0.1:%d", free[0]), Password: password()}
	config := filepath.Join(dir, "redis.conf")
	text := fmt.Sprintf("bind 127.0.0.1\nport %d\ndir %s\nrequirepass %s\nappendonly yes\nappendfsync %s\nsave \"\"\n", free[0], dir, r.Password, fsync)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, err
	}
	if r.child, err = proc.Keep(proc.Kept{
		Path: path, Args: []string{config}, Dir: dir, Log: filepath.Join(dir, "log"), Stop: int(syscall.SIGTERM),
	}); err != nil {
		return nil, err
	}
	if err := until(ctx, "Redis", r.child.Done(), r.ping); err != nil {
		return nil, errors.Join(err, r.child.Close())
	}
	return r, nil
}

// ping asks the server whether it is there.
func (r *Redis) ping(ctx context.Context) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", r.Address)
	if err != nil {
		return err
	}
	defer conn.Close() // nothing was written that counts
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return err
		}
	}
	if _, err := fmt.Fprintf(conn, "AUTH %s\r\nPING\r\n", r.Password); err != nil {
		return err
	}
	answers := bufio.NewReader(conn)
	for _, want := range []string{"+OK", "+PONG"} {
		line, err := answers.ReadString('\n')
		if err != nil {
			return err
		}
		if strings.TrimSpace(line) != want {
			return fmt.Errorf("it answers %q", line)
		}
	}
	return nil
}

// Pids are the processes of the server.
func (r *Redis) Pids() []int { return []int{r.child.Pid()} }

// Close ends the server.
func (r *Redis) Close() error { return r.child.Close() }
