package cli

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/berth-dev/berth/kube/answer"
	"github.com/berth-dev/berth/kube/scheduler"
)

// retireTimeout bounds how long the end of a cluster waits for its API server.
const retireTimeout = 2 * time.Second

// offerAnswers opens the port on which the scheduler will answer, and has the API server hand questions on to it.
func (s *session) offerAnswers(ctx context.Context, admin *rest.Config) (net.Listener, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("open a port for the scheduler's answers: %w", err)
	}
	if err := scheduler.InstallAnswers(ctx, admin, l); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

func retireAnswers(admin *rest.Config, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(context.Background(), retireTimeout)
	defer cancel()
	if err := scheduler.RetireAnswers(ctx, admin); err != nil {
		log.Warn("answers", "err", err)
	}
}

// waitAnswers returns when the API server hands questions on, so that nobody finds a group that does not answer. A
// cluster without answers is a cluster all the same: it does not wait for long.
func (s *session) waitAnswers(ctx context.Context) error {
	admin, err := s.cp.Config("admin")
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(admin)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for ctx.Err() == nil {
		select {
		case err := <-s.sched.failed:
			return err
		default:
		}
		if _, err := client.Discovery().RESTClient().Get().AbsPath("/apis", answer.Group, answer.Version).DoRaw(ctx); err == nil {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return nil
}
