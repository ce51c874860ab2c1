package etcd

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// hungForStreams is a member that does not answer logins of streams.
type hungForStreams struct{ clientv3.Auth }

func (hungForStreams) Authenticate(ctx context.Context, _, _ string) (*clientv3.AuthenticateResponse, error) {
	if ctx.Value(streamKey{}) == nil {
		return &clientv3.AuthenticateResponse{Token: "token"}, nil
	}
	<-ctx.Done()
	return nil, ctx.Err()
}

// A login that hangs delays other streams for a limited time, but not other requests, and not
// streams after one of those has logged in.
func TestLoginThatHangsHoldsUpNobodyForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const timeout = 5 * time.Second
		client := &clientv3.Client{Auth: hungForStreams{}}
		l := shareLogins(client, timeout)
		began := time.Now()
		var streams sync.WaitGroup
		for range 3 {
			streams.Go(func() {
				if _, err := client.Auth.Authenticate(forStream(t.Context()), "", ""); !errors.Is(err, errLoginSilent) || time.Since(began) != timeout {
					t.Errorf("after %v: %v", time.Since(began), err)
				}
			})
		}
		synctest.Wait()
		if _, err := client.Auth.Authenticate(t.Context(), "", ""); err != nil {
			t.Error(err)
		}
		if answer, err := client.Auth.Authenticate(forStream(t.Context()), "", ""); err != nil || answer.Token != "token" || time.Since(began) != 0 {
			t.Errorf("%v, %v, after %v", answer, err, time.Since(began))
		}
		l.last.Store(nil) // so that the waiting streams find no token
		streams.Wait()
	})
}
