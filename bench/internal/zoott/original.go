package zoott

import (
	"fmt"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"
)

// original takes jobs as the original does.
type original struct {
	conn   *zk.Conn
	queued int
}

// sessionTimeout is that of either side's connection.
const sessionTimeout = 15 * time.Second

func openOriginal(address string) (*original, error) {
	conn, _, err := zk.Connect([]string{address}, sessionTimeout, zk.WithLogger(silent{}), zk.WithLogInfo(false))
	if err != nil {
		return nil, err
	}
	o := &original{conn: conn}
	for _, dir := range []string{"", "/pending", "/working", "/completed", "/tree"} {
		if err := o.create("/zoott"+dir, 0); err != nil {
			conn.Close()
			return nil, err
		}
	}
	return o, nil
}

// silent is the logger of a client that tells everything by its errors.
type silent struct{}

// Printf implements zk.Logger.
func (silent) Printf(string, ...any) {}

func (o *original) create(path string, flags int32) error {
	_, err := o.conn.Create(path, []byte("{}"), flags, zk.WorldACL(zk.PermAll))
	if err != nil {
		return fmt.Errorf("create %s: %w", path, err)
	}
	return nil
}

// queueBatch is how many jobs one request makes pending, where many are.
const queueBatch = 500

// queue makes n jobs pending.
func (o *original) queue(n int) error {
	for n > 0 {
		some := min(n, queueBatch)
		var creates []any
		for i := range some {
			name := fmt.Sprintf("%06d_job", o.queued+i)
			for _, dir := range []string{"/zoott/tree/", "/zoott/pending/"} {
				creates = append(creates, &zk.CreateRequest{Path: dir + name, Data: []byte("{}"), Acl: zk.WorldACL(zk.PermAll)})
			}
		}
		if _, err := o.conn.Multi(creates...); err != nil {
			return fmt.Errorf("queue %d jobs: %w", some, err)
		}
		o.queued += some
		n -= some
	}
	return nil
}

// take takes the first job and completes it.
func (o *original) take() error {
	names, _, err := o.conn.Children("/zoott/pending")
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, name := range names {
		if _, _, err := o.conn.Get("/zoott/pending/" + name); err != nil {
			return err
		}
	}
	name := names[0]
	if err := o.create("/zoott/working/"+name, zk.FlagEphemeral); err != nil {
		return err
	}
	if _, _, err := o.conn.Get("/zoott/tree/" + name); err != nil {
		return err
	}
	if err := o.create("/zoott/completed/"+name, 0); err != nil {
		return err
	}
	for _, dir := range []string{"working", "pending"} {
		if err := o.conn.Delete("/zoott/"+dir+"/"+name, -1); err != nil {
			return err
		}
	}
	return nil
}

func (o *original) close() error {
	o.conn.Close()
	return nil
}
