package bench

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

const systemRiver = "river"

// River's settings. The tuned ones are those of its own benchmark, which uses InsertMany,
// although InsertManyFast (COPY) is faster. There is no default for the number of
// workers; its guide begins with 100.
const (
	riverWorkers           = 100
	riverWorkersTuned      = 2000
	riverCooldownTuned     = 2 * time.Millisecond
	riverPollIntervalTuned = 20 * time.Millisecond
	// riverBatch is how many jobs its own benchmark inserts at a time.
	riverBatch = 5000
	// riverConnections limits the connections of a worker process to the database.
	riverConnections = 20
)

// postgresSettings are the server settings that differ from the defaults, or that matter:
// everything acknowledged is on disk, a gigabyte of memory, and few checkpoints, as is
// recommended for many writes.
var postgresSettings = []string{
	"fsync=on", "synchronous_commit=on", "full_page_writes=on",
	"shared_buffers=1GB", "max_wal_size=4GB", "checkpoint_timeout=15min", "max_connections=200",
}

// postgresUser is the database's superuser. It is also the user who runs the server if
// this process runs as root, because PostgreSQL does not.
const postgresUser = "postgres"

// postgresBin returns the folder of an installed server, of Debian's package or on the
// path; empty for none.
func postgresBin() string {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb") // the pattern is valid
	if path, err := exec.LookPath("initdb"); err == nil {
		found = append(found, path)
	}
	if len(found) == 0 {
		return ""
	}
	return filepath.Dir(found[0])
}

func missingPostgres() string {
	if postgresBin() == "" {
		return "there is no PostgreSQL: install postgresql"
	}
	if _, err := user.Lookup(postgresUser); err != nil && os.Geteuid() == 0 {
		return "PostgreSQL does not run as root, and there is no user " + postgresUser
	}
	return ""
}

// riverStore is a PostgreSQL server with a random password, because this machine may have
// other users.
type riverStore struct {
	server *child
	url    string
	pool   *pgxpool.Pool
	client *river.Client[pgx.Tx]
	tuned  bool
}

func openRiver(tb testing.TB, tuned bool) store {
	tb.Helper()
	if missing := missingPostgres(); missing != "" {
		tb.Skip(missing)
	}
	s := &riverStore{tuned: tuned}
	s.startPostgres(tb)
	var err error
	s.pool, err = riverPool(tb.Context(), s.url)
	must(tb, err)
	driver := riverpgxv5.New(s.pool)
	migrator, err := rivermigrate.New(driver, &rivermigrate.Config{Logger: riverLogger()})
	must(tb, err)
	_, err = migrator.Migrate(tb.Context(), rivermigrate.DirectionUp, nil)
	must(tb, err)
	s.client, err = river.NewClient(driver, &river.Config{Logger: riverLogger()})
	must(tb, err)
	return s
}

// startPostgres creates a database cluster and runs a server on it.
func (s *riverStore) startPostgres(tb testing.TB) {
	tb.Helper()
	dir, err := os.MkdirTemp("", "windlass-bench-") // tb.TempDir is closed to other users
	must(tb, err)
	tb.Cleanup(func() { _ = os.RemoveAll(dir) }) // best effort
	port, password := ports(tb, 1)[0], rand.Text()
	passwordFile, data := filepath.Join(dir, "password"), filepath.Join(dir, "data")
	must(tb, os.WriteFile(passwordFile, []byte(password), 0o600))
	as := asPostgres(tb, dir, passwordFile)
	initialize := exec.CommandContext(tb.Context(), filepath.Join(postgresBin(), "initdb"), "--pgdata="+data, "--username="+postgresUser,
		"--pwfile="+passwordFile, "--auth=scram-sha-256", "--encoding=UTF8", "--locale=C")
	initialize.Dir, initialize.SysProcAttr = dir, as
	if out, err := initialize.CombinedOutput(); err != nil {
		tb.Fatalf("initdb: %v: %s", err, out)
	}
	command := []string{filepath.Join(postgresBin(), "postgres"), "-D", data, "-p", strconv.Itoa(port), "-h", "127.0.0.1", "-k", ""}
	for _, setting := range postgresSettings {
		command = append(command, "-c", setting)
	}
	cmd := server("INT", filepath.Join(dir, "log"), command...) // a fast shutdown
	cmd.Dir, cmd.SysProcAttr = dir, as
	s.server = startChild(tb, cmd, func([]byte) {})
	at := url.URL{
		Scheme: "postgres", User: url.UserPassword(postgresUser, password),
		Host: fmt.Sprintf("127.0.0.1:%d", port), Path: postgresUser, RawQuery: "sslmode=disable",
	}
	s.url = at.String()
	awaitReady(tb, s.server, func(ctx context.Context) error {
		conn, err := pgx.Connect(ctx, s.url)
		if err != nil {
			return err
		}
		return conn.Close(ctx)
	})
}

// asPostgres gives files to the user who runs the server, and returns the attributes of a
// process of that user; nil for the user of this process.
func asPostgres(tb testing.TB, paths ...string) *syscall.SysProcAttr {
	tb.Helper()
	if os.Geteuid() != 0 {
		return nil
	}
	u, err := user.Lookup(postgresUser)
	must(tb, err)
	uid, gid := number(u.Uid), number(u.Gid)
	for _, path := range paths {
		must(tb, os.Chown(path, uid, gid))
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
}

func riverPool(ctx context.Context, url string) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	config.MaxConns = riverConnections
	return pgxpool.NewWithConfig(ctx, config)
}

// riverLogger returns a logger that does not write to standard output.
func riverLogger() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
}

func (s *riverStore) order() workerOrder {
	return workerOrder{System: systemRiver, Address: s.url, Tuned: s.tuned}
}

// riverJob are the arguments of a job.
type riverJob struct {
	Number int `json:"number"`
}

// Kind implements river.JobArgs.
func (riverJob) Kind() string { return noopType }

func (s *riverStore) enqueue(ctx context.Context, first, n int) error {
	if n == 1 {
		_, err := s.client.Insert(ctx, riverJob{Number: first}, nil)
		return err
	}
	for at := first; at < first+n; at += riverBatch {
		params := make([]river.InsertManyParams, min(riverBatch, first+n-at))
		for i := range params {
			params[i].Args = riverJob{Number: at + i}
		}
		var err error
		if s.tuned {
			_, err = s.client.InsertManyFast(ctx, params)
		} else {
			_, err = s.client.InsertMany(ctx, params)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *riverStore) settled(context.Context) (time.Time, error) { return time.Time{}, nil }

func (s *riverStore) pids() []int { return []int{s.server.pid()} } // the others descend from it

func (s *riverStore) close() error {
	s.pool.Close()
	return s.server.close()
}

// riverEvents limits the completions that River buffers for the counter. It must be more
// than the jobs in a second, or River drops some.
const riverEvents = 200_000

func consumeRiver(ctx context.Context, o workerOrder, c *counter) (err error) {
	pool, err := riverPool(ctx, o.Address)
	if err != nil {
		return err
	}
	defer pool.Close()
	config := &river.Config{
		ID: o.Name, Logger: riverLogger(), Workers: river.NewWorkers(),
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: riverWorkers}},
	}
	if o.Tuned {
		config.FetchCooldown, config.FetchPollInterval = riverCooldownTuned, riverPollIntervalTuned
		config.Queues[river.QueueDefault] = river.QueueConfig{MaxWorkers: riverWorkersTuned}
	}
	river.AddWorker(config.Workers, river.WorkFunc(func(context.Context, *river.Job[riverJob]) error {
		c.runs()
		return nil
	}))
	client, err := river.NewClient(riverpgxv5.New(pool), config)
	if err != nil {
		return err
	}
	// Jobs in these events have gone through the completer, so they are in the database.
	events, cancel := client.SubscribeConfig(&river.SubscribeConfig{ChanSize: riverEvents, Kinds: []river.EventKind{river.EventKindJobCompleted}})
	var counting sync.WaitGroup
	counting.Go(func() {
		for range events {
			c.completes()
		}
	})
	defer counting.Wait()
	defer cancel()
	if err := client.Start(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	c.ready()
	<-ctx.Done()
	return client.Stop(context.WithoutCancel(ctx))
}
