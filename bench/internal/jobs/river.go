package jobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/windlass-go/windlass/bench/internal/servers"
)

// River's settings. The tuned ones are those with which its own benchmark runs;
// there is no default for the number of workers, and its guide begins with 100.
const (
	riverWorkers           = 100
	riverWorkersTuned      = 2000
	riverCooldownTuned     = 2 * time.Millisecond
	riverPollIntervalTuned = 20 * time.Millisecond
	// riverBatch is how many jobs its own benchmark inserts at a time.
	riverBatch = 5000
	// riverConnections is the most that a worker process has to the database.
	riverConnections = 20
)

// postgresDurable says what PostgreSQL promises.
var postgresDurable = "PostgreSQL with synchronous_commit on, every commit on disk before it is acknowledged (" +
	strings.Join(servers.PostgresSettings, ", ") + ")"

var (
	riverSide = side{
		name: SideRiver,
		settings: postgresDurable + fmt.Sprintf("; the client's defaults, MaxWorkers %d, InsertMany of up to %d at a time",
			riverWorkers, riverBatch),
		missing: servers.MissingPostgres, open: openRiver(false),
	}
	riverTunedSide = side{
		name: SideRiverTuned,
		settings: fmt.Sprintf("the same PostgreSQL; FetchCooldown %v, FetchPollInterval %v, MaxWorkers %d, and up to %d at a time, as River's own benchmark has them; "+
			"InsertManyFast (COPY), which is faster than what that one calls; its completer works in batches as always; "+collector,
			riverCooldownTuned, riverPollIntervalTuned, riverWorkersTuned, riverBatch),
		missing: servers.MissingPostgres, open: openRiver(true),
	}
)

// noop are the arguments of a job.
type noop struct {
	Number int `json:"number"`
}

// Kind implements river.JobArgs.
func (noop) Kind() string { return jobType }

// riverStore is a PostgreSQL.
type riverStore struct {
	server *servers.Postgres
	pool   *pgxpool.Pool
	client *river.Client[pgx.Tx]
	tuned  bool
}

// riverDatabase is the database.
const riverDatabase = "river"

func openRiver(tuned bool) func(context.Context, string) (store, error) {
	return func(ctx context.Context, dir string) (store, error) {
		server, err := servers.StartPostgres(ctx, dir)
		if err != nil {
			return nil, err
		}
		s := &riverStore{server: server, tuned: tuned}
		if err := s.prepare(ctx); err != nil {
			return nil, errors.Join(err, s.close())
		}
		return s, nil
	}
}

func (s *riverStore) prepare(ctx context.Context) (err error) {
	if err := s.server.Do(ctx, "postgres", "create database "+riverDatabase); err != nil {
		return err
	}
	if s.pool, err = riverPool(ctx, s.server.URL(riverDatabase)); err != nil {
		return err
	}
	driver := riverpgxv5.New(s.pool)
	migrator, err := rivermigrate.New(driver, &rivermigrate.Config{Logger: riverLogger()})
	if err != nil {
		return err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return err
	}
	s.client, err = river.NewClient(driver, &river.Config{Logger: riverLogger()})
	return err
}

func riverPool(ctx context.Context, url string) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	config.MaxConns = riverConnections
	return pgxpool.NewWithConfig(ctx, config)
}

// riverLogger keeps what River has to say away from standard output.
func riverLogger() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
}

func (s *riverStore) order() order {
	return order{System: systemRiver, Addresses: []string{s.server.URL(riverDatabase)}, Tuned: s.tuned}
}

func (s *riverStore) enqueue(ctx context.Context, first, n int) error {
	if n == 1 {
		_, err := s.client.Insert(ctx, noop{Number: first}, nil)
		return err
	}
	for at := first; at < first+n; at += riverBatch {
		params := make([]river.InsertManyParams, min(riverBatch, first+n-at))
		for i := range params {
			params[i].Args = noop{Number: at + i}
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

func (s *riverStore) pids() []int { return s.server.Pids() }

func (s *riverStore) close() error {
	if s.pool != nil {
		s.pool.Close()
	}
	return s.server.Close()
}

// riverEvents bounds the completions that River keeps for the counter: more than
// there are jobs in a second, or it would drop some.
const riverEvents = 200_000

func consumeRiver(ctx context.Context, o order, c *counter) (err error) {
	pool, err := riverPool(ctx, o.Addresses[0])
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
	river.AddWorker(config.Workers, river.WorkFunc(func(context.Context, *river.Job[noop]) error {
		c.runs()
		return nil
	}))
	client, err := river.NewClient(riverpgxv5.New(pool), config)
	if err != nil {
		return err
	}
	// What it tells has gone through the completer: it is in the database.
	events, cancel := client.SubscribeConfig(&river.SubscribeConfig{ChanSize: riverEvents, Kinds: []river.EventKind{river.EventKindJobCompleted}})
	var counting sync.WaitGroup
	counting.Go(func() {
		for range events {
			c.completes(1)
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
