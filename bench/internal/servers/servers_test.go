package servers

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/windlass-go/windlass/bench/internal/proc"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[0] == "peers" {
		roles := map[string]func(string) error{
			proc.KeeperRole: func(order string) error { return proc.RunKeeper(os.Stdin, order) },
			EtcdRole:        func(order string) error { return RunEtcdMember(os.Stdin, os.Stdout, order) },
		}
		if err := roles[os.Args[1]](os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// folder is one that servers of other users may pass.
func folder(t *testing.T) string {
	t.Helper()
	dir, remove, err := Folder()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := remove(); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func TestEtcd_OfThreeMembersKeepsWhatOneIsTold(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	e, err := StartEtcd(ctx, folder(t), 3)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}()
	for i, endpoint := range e.Endpoints {
		client, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, Logger: zap.NewNop()})
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close() // all that counts has been read
		if i == 0 {
			if _, err := client.Put(ctx, "k", "v"); err != nil {
				t.Fatal(err)
			}
		}
		r, err := client.Get(ctx, "k")
		if err != nil || len(r.Kvs) != 1 || string(r.Kvs[0].Value) != "v" {
			t.Errorf("member %d has %v (%v)", i, r, err)
		}
	}
	if n := len(e.Pids()); n != 3 {
		t.Errorf("it has %d processes", n)
	}
}

func TestPostgres_WritesToDisk(t *testing.T) {
	if missing := MissingPostgres(); missing != "" {
		t.Skip(missing)
	}
	p, err := StartPostgres(t.Context(), filepath.Join(folder(t), "pg"))
	if err != nil {
		t.Fatal(err)
	}
	for _, setting := range []string{"fsync", "synchronous_commit"} {
		if err := p.Do(t.Context(), "postgres", "do $$ begin assert current_setting('"+setting+"') = 'on'; end $$"); err != nil {
			t.Errorf("%s: %v", setting, err)
		}
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

func TestRedis_AsksForItsPassword(t *testing.T) {
	if missing := MissingRedis(); missing != "" {
		t.Skip(missing)
	}
	r, err := StartRedis(t.Context(), filepath.Join(folder(t), "redis"), FsyncAlways)
	if err != nil {
		t.Fatal(err)
	}
	other := &Redis{Address: r.Address, Password: "another"}
	if other.ping(t.Context()) == nil {
		t.Error("it takes any password")
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

func TestVersionOf_IsANumberOrNothing(t *testing.T) {
	if v := versionOf(filepath.Join(t.TempDir(), "nothing")); v != "" {
		t.Errorf("what is not there is of version %s", v)
	}
	for _, server := range []struct{ missing, version func() string }{
		{MissingPostgres, PostgresVersion}, {MissingRedis, RedisVersion},
	} {
		if server.missing() == "" && !number.MatchString(server.version()) {
			t.Errorf("what is there is of version %q", server.version())
		}
	}
}

func TestPostgresMajor_IsTheFoldersName(t *testing.T) {
	for path, want := range map[string]int{"/usr/lib/postgresql/15/bin/initdb": 15, "/usr/lib/postgresql/9/bin/initdb": 9, "/usr/local/bin/initdb": 0} {
		if got := postgresMajor(path); got != want {
			t.Errorf("%s is %d, want %d", path, got, want)
		}
	}
}
