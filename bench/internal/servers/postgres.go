package servers

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"github.com/jackc/pgx/v5"

	"github.com/windlass-go/windlass/bench/internal/proc"
)

// PostgresSettings are those of the server that are not its own defaults, or that
// matter: everything that is acknowledged is on disk, and a gigabyte of memory and
// few checkpoints, as is advised for a machine with much to write.
var PostgresSettings = []string{
	"fsync=on", "synchronous_commit=on", "full_page_writes=on",
	"shared_buffers=1GB", "max_wal_size=4GB", "checkpoint_timeout=15min", "max_connections=200",
}

// postgresUser is who runs the server where this process is root's.
const postgresUser = "postgres"

// postgresBin is the folder with the newest server that is installed.
func postgresBin() string {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb") // the pattern is a good one
	slices.SortFunc(found, func(a, b string) int { return postgresMajor(b) - postgresMajor(a) })
	if len(found) > 0 {
		return filepath.Dir(found[0])
	}
	if path, err := exec.LookPath("initdb"); err == nil {
		return filepath.Dir(path)
	}
	return ""
}

// postgresMajor is the version in a path of Debian's.
func postgresMajor(path string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path)))) // another layout is as if it were old
	return n
}

// MissingPostgres says what has to be installed, nothing if all is there.
func MissingPostgres() string {
	if postgresBin() == "" {
		return "there is no PostgreSQL: install postgresql"
	}
	if os.Geteuid() == 0 {
		if _, err := user.Lookup(postgresUser); err != nil {
			return "PostgreSQL does not run as root, and there is no user " + postgresUser
		}
	}
	return ""
}

// PostgresVersion is the installed server's, empty if it does not tell.
func PostgresVersion() string { return versionOf(filepath.Join(postgresBin(), "postgres")) }

// Postgres is a running server.
type Postgres struct {
	dir, password string
	port          int
	uid, gid      uint32
	child         *proc.Child
}

// StartPostgres makes a database cluster in a folder and runs a server on it.
func StartPostgres(ctx context.Context, dir string) (p *Postgres, err error) {
	if missing := MissingPostgres(); missing != "" {
		return nil, errors.New(missing)
	}
	free, err := ports(1)
	if err != nil {
		return nil, err
	}
	p = &Postgres{dir: dir, password: password(), port: free[0]}
	if err := p.initialize(ctx); err != nil {
		return nil, err
	}
	return p, p.run(ctx)
}

// initialize makes the data, of the user who is to run the server.
func (p *Postgres) initialize(ctx context.Context) error {
	if err := os.MkdirAll(p.dir, 0o700); err != nil {
		return err
	}
	secret := filepath.Join(p.dir, "password")
	if err := os.WriteFile(secret, []byte(p.password), 0o600); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, filepath.Join(postgresBin(), "initdb"), "--pgdata="+p.data(), "--username="+postgresUser,
		"--pwfile="+secret, "--auth=scram-sha-256", "--encoding=UTF8", "--locale=C")
	cmd.Dir = p.dir
	if os.Geteuid() == 0 {
		u, err := user.Lookup(postgresUser)
		if err != nil {
			return err
		}
		uid, err := strconv.ParseUint(u.Uid, 10, 32)
		if err != nil {
			return err
		}
		gid, err := strconv.ParseUint(u.Gid, 10, 32)
		if err != nil {
			return err
		}
		p.uid, p.gid = uint32(uid), uint32(gid)
		cmd.SysProcAttr = proc.As(p.uid, p.gid)
		if err := errors.Join(os.Chown(p.dir, int(uid), int(gid)), os.Chown(secret, int(uid), int(gid))); err != nil {
			return err
		}
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, out)
	}
	return os.Remove(secret)
}

func (p *Postgres) data() string { return filepath.Join(p.dir, "data") }

func (p *Postgres) run(ctx context.Context) error {
	args := []string{"-D", p.data(), "-p", strconv.Itoa(p.port), "-h", "127.0.0.1", "-k", ""}
	for _, setting := range PostgresSettings {
		args = append(args, "-c", setting)
	}
	var err error
	p.child, err = proc.Keep(proc.Kept{
		Path: filepath.Join(postgresBin(), "postgres"), Args: args, Dir: p.dir, Log: filepath.Join(filepath.Dir(p.dir), filepath.Base(p.dir)+".log"),
		UID: p.uid, GID: p.gid, Stop: int(syscall.SIGINT), // a fast shutdown
	})
	if err != nil {
		return err
	}
	err = until(ctx, "PostgreSQL", p.child.Done(), func(ctx context.Context) error {
		return p.Do(ctx, postgresUser, "select 1")
	})
	if err != nil {
		return errors.Join(err, p.child.Close())
	}
	return nil
}

// URL is that of a database.
func (p *Postgres) URL(database string) string {
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword(postgresUser, p.password),
		Host: fmt.Sprintf("127.0.0.1:%d", p.port), Path: database, RawQuery: "sslmode=disable",
	}
	return u.String()
}

// Do executes statements in a database, each in a transaction of its own.
func (p *Postgres) Do(ctx context.Context, database string, statements ...string) (err error) {
	conn, err := pgx.Connect(ctx, p.URL(database))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	for _, statement := range statements {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}

// Pids are the processes of the server, of which the others descend.
func (p *Postgres) Pids() []int { return []int{p.child.Pid()} }

// Close ends the server.
func (p *Postgres) Close() error { return p.child.Close() }
