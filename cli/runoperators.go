package cli

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/berth-dev/berth/controlplane/operators"
)

// maxOperators bounds --with.
const maxOperators = 16

// checkWith reads --with, and finds the program that it needs.
func (o *upOptions) checkWith() (err error) {
	if len(o.with) == 0 {
		return nil
	}
	if len(o.with) > maxOperators || slices.ContainsFunc(o.with, func(name string) bool { return name == "" || len(name) > 63 || strings.HasPrefix(name, "-") }) {
		return fmt.Errorf("--with %.200q: give names of controllers, such as jobset,lws", strings.Join(o.with, ","))
	}
	o.operators, err = operators.Find()
	return failed(err)
}

// runningOperators are other projects' controllers, in a child process.
type runningOperators struct {
	*kept
	*operators.Operators
}

func (r *runningOperators) stop() {
	if r != nil {
		r.kept.stop()
		r.Close()
	}
}

// operatorsPatience bounds how long `up` waits for the controllers to have read the cluster.
const operatorsPatience = 2 * time.Minute

// startOperators gives the controllers of --with what they need, and sets them going. Webhooks that an earlier start left go,
// whether or not there is a --with now: nobody would answer them.
func (s *session) startOperators(ctx context.Context) error {
	config, err := s.cp.Config("admin")
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	admin := client.Discovery().RESTClient()
	if len(s.with) == 0 {
		return operators.Remove(ctx, admin)
	}
	names := strings.Join(s.with, ", ")
	s.report.doing("starting the controllers of " + names)
	own, err := s.cp.Config("operators")
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(s.log, nil)).With("component", "operators")
	o, err := operators.New(operators.Options{Program: s.operators, Names: s.with, Config: own, Dir: s.dir.Run(), Log: s.log})
	if err != nil {
		return err
	}
	if err := o.Install(ctx, admin); err != nil {
		o.Close()
		return err
	}
	s.others = &runningOperators{kept: keep("the controllers of "+names, o.Run, s.report.say, log), Operators: o}
	return s.waitOperators(ctx, names)
}

func (s *session) waitOperators(ctx context.Context, names string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, operatorsPatience, fmt.Errorf("the controllers of %s were not ready within %s", names, operatorsPatience))
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- s.others.Ready(ctx) }()
	select {
	case err := <-done:
		if err == nil {
			s.report.did("running the controllers of " + names)
		}
		return err
	case err := <-s.others.failed:
		return err
	}
}
