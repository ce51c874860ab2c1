package api

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/windlass-go/windlass/election"
	"github.com/windlass-go/windlass/internal/view"
)

type electionInput struct {
	Name string `path:"name" doc:"name of the election"`
}

type resignInput struct {
	Name string `path:"name" doc:"name of the election"`
	Sent struct {
		Wait string `json:"wait,omitempty" doc:"for how long to wait until the leader has stepped down, such as 10s; default is not to wait"`
	}
}

func (s *Server) registerElections() {
	const tag = "elections"
	add(s, endpoint{ID: "listElections", Method: http.MethodGet, Path: "/v1/elections", Tag: tag,
		Summary: "Who leads, and who waits in line",
	}, func(ctx context.Context, _ *noBody) (*ok[[]view.Election], error) {
		return answerWith(s.elections(ctx))
	})
	add(s, endpoint{ID: "getElection", Method: http.MethodGet, Path: "/v1/elections/{name}", Tag: tag, Errors: []int{http.StatusNotFound},
		Summary: "One election",
	}, func(ctx context.Context, in *electionInput) (*ok[view.Election], error) {
		all, err := s.elections(ctx)
		for _, e := range all {
			if e.Name == in.Name {
				return &ok[view.Election]{e}, nil
			}
		}
		if err == nil {
			err = fmt.Errorf("election %q: %w", in.Name, election.ErrNoLeader)
		}
		return nil, err
	})
	add(s, endpoint{ID: "resign", Method: http.MethodPost, Path: "/v1/elections/{name}/resign", Tag: tag, Role: RoleOperate, Waits: true,
		Errors:      []int{http.StatusNotFound, http.StatusConflict},
		Summary:     "Ask the leader of an election to step down",
		Description: "With wait the answer names the next leader. If the leader has not stepped down by then, that is a 504, and it may still do so.",
	}, s.resign)
}

func (s *Server) elections(ctx context.Context) ([]view.Election, error) {
	infos, err := election.List(ctx, s.config.Broker, s.config.Namespace)
	all := []view.Election{}
	for _, info := range infos {
		all = append(all, view.ElectionOf(info))
	}
	return all, err
}

func (s *Server) resign(ctx context.Context, in *resignInput) (*ok[view.Resigned], error) {
	note(ctx, slog.String("election", in.Name))
	patience, err := s.waiting("wait", in.Sent.Wait, 0)
	if err != nil {
		return nil, err
	}
	asked, err := election.RequestResign(ctx, s.config.Broker, s.config.Namespace, in.Name)
	if err != nil {
		return nil, err
	}
	note(ctx, slog.String("leader", asked.Leader), slog.Int64("token", asked.Token))
	v := view.Resigned{Election: in.Name, Asked: asked.Leader, Token: asked.Token}
	if patience == 0 {
		return &ok[view.Resigned]{v}, nil
	}
	return s.resigned(ctx, v, patience)
}

// resigned waits until the leader has changed, or there is none.
func (s *Server) resigned(ctx context.Context, v view.Resigned, patience time.Duration) (*ok[view.Resigned], error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var trouble error
	var silent time.Time
	for now, err := range election.Observe(ctx, s.config.Broker, s.config.Namespace, v.Election) {
		if trouble = err; err == nil && now.Token != v.Token {
			v.Leader = now.Leader
			return &ok[view.Resigned]{v}, nil
		}
		silent = now.SilentSince
	}
	if trouble != nil {
		return nil, trouble
	}
	return nil, fmt.Errorf("%s: %w", v.Late(patience, silent, time.Now()), context.DeadlineExceeded)
}
