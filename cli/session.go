package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"k8s.io/client-go/rest"

	v1alpha1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/controlplane/home"
	"github.com/berth-dev/berth/fleet"
)

// session is a cluster that runs in this process, from the lock on its folder to the end.
type session struct {
	*upOptions
	dir    home.Dir
	pools  []v1alpha1.Pool
	report reporter

	record    home.Record
	log       *os.File
	cp        ControlPlane
	fleet     *runningFleet
	sched     *runningScheduler
	provision *kept
	asked     *kept             // ProvisioningRequests; nil: none are written
	played    *kept             // the provisioner that is played; nil: none
	others    *runningOperators // nil: none

	podNetwork fleet.PodNetwork
}

var errInterrupted = errors.New("interrupted before the cluster was ready; nothing is lost, run the command again")

// run starts the cluster, tells the user, waits for the end, and puts things in order.
func (s *session) run(ctx context.Context) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	defer context.AfterFunc(ctx, func() {
		stop() // from now on Ctrl-C ends the process at once
		s.report.doing("stopping; Ctrl-C again ends it at once")
	})()
	if err := prepare(s.dir, s.report); err != nil {
		return err
	}
	lock, err := s.dir.Lock()
	if err != nil {
		return err
	}
	defer lock.Unlock()
	if s.record, err = s.claim(s.dir); err != nil {
		return err
	}
	listener, err := s.listen(s.record)
	if err != nil {
		return err
	}
	defer listener.Close()
	s.record.APIPort = listener.Addr().(*net.TCPAddr).Port
	if err := s.dir.Save(s.record); err != nil {
		return err
	}
	if err := s.link(); err != nil {
		return err
	}
	if s.log, err = openLog(s.dir); err != nil {
		return err
	}
	defer s.log.Close()
	err = s.play(ctx, listener)
	if err != nil && ctx.Err() != nil && !s.record.Ready {
		err = errInterrupted // whatever was under way broke off
	}
	if err != nil && !errors.Is(err, errInterrupted) {
		err = fmt.Errorf("%w (log: %s)", err, s.dir.Log())
	}
	return errors.Join(err, s.leave())
}

// prepare makes the data folder fit for keys, and says so where its mode was changed.
func prepare(dir home.Dir, report reporter) error {
	closed, err := dir.Prepare()
	if closed {
		report.did("data folder closed to other users: " + dir.Path + " has mode 0700 now")
	}
	return err
}

// play is the cluster's life between the first component and the last.
func (s *session) play(ctx context.Context, l net.Listener) (err error) {
	s.report.doing("starting etcd and the API server")
	interval := fleet.LeaseInterval(s.countNodes())
	s.cp, err = s.deps.StartControlPlane(ctx, ControlPlaneOptions{
		Dir: s.dir, Listener: l, Name: s.name, Ephemeral: s.ephemeral, Log: s.log,
		NodeGrace: fleet.GracePeriod(interval), NoScheduler: s.defaultScheduler == berthScheduler,
		NoGroups: len(s.dialects) > 0, DialPod: s.podNetwork.DialPod, Progress: s.report.did,
	})
	if err != nil {
		return err
	}
	defer s.cp.Stop()
	if ctx.Err() != nil {
		return errInterrupted
	}
	if err := s.startFleet(ctx, fleet.Options{LeaseInterval: interval}); err != nil {
		return err
	}
	defer s.fleet.stop()
	if s.provisioner != "" {
		if err := s.startProvisioner(ctx); err != nil {
			return err
		}
		defer s.played.stop()
	}
	if !s.withoutScheduler {
		if err := s.startScheduler(ctx); err != nil {
			return err
		}
		defer s.sched.stop()
		defer s.provision.stop()
		defer func() {
			if s.asked != nil {
				s.asked.stop()
			}
		}()
	}
	defer func() { s.others.stop() }()
	if err := s.startOperators(ctx); err != nil {
		return err
	}
	if err := s.waitFleet(ctx); err != nil {
		return err
	}
	if !s.withoutScheduler {
		if err := s.waitPolicies(ctx); err != nil {
			return err
		}
		if err := s.waitAnswers(ctx); err != nil {
			return err
		}
	}
	if err := s.announce(ctx); err != nil {
		return err
	}
	return s.wait(ctx)
}

// startFleet installs the fleet and sets it going.
func (s *session) startFleet(ctx context.Context, o fleet.Options) error {
	s.report.doing("installing the fleet")
	admin, err := s.cp.Config("admin")
	if err != nil {
		return err
	}
	if err := fleet.Install(ctx, admin, s.pools); err != nil {
		return fmt.Errorf("install the fleet: %w", err)
	}
	if err := s.applyFleet(ctx, admin); err != nil {
		return fmt.Errorf("apply the fleet: %w", err)
	}
	s.report.did("fleet installed")
	if o.Config, err = s.cp.Config("fleet"); err != nil {
		return err
	}
	if o.KubeletTLS, err = s.cp.KubeletTLS(); err != nil {
		return err
	}
	o.Pods = &s.podNetwork
	o.DataDir, o.Speed, o.Cold = s.dir.Fleet(), s.speed, s.cold
	o.Log = slog.New(slog.NewTextHandler(s.log, nil))
	s.fleet = startFleet(o, s.report.say)
	return nil
}

// countNodes is how many nodes the fleet is going to have: what the cluster had when last
// seen, or else what the pools say.
func (s *session) countNodes() int {
	if s.record.Nodes > 0 {
		return s.record.Nodes
	}
	n := 0
	for i := range s.pools {
		n += int(*s.pools[i].Spec.Nodes)
	}
	return n
}

// announce makes it known that the cluster can be used.
func (s *session) announce(ctx context.Context) error {
	s.record.Ready, s.record.Nodes = true, s.fleet.progress().WantNodes
	if err := errors.Join(s.dir.Save(s.record), s.mergeKubeconfig(s.dir)); err != nil {
		return err
	}
	if link, err := s.servePage(ctx); err != nil {
		s.report.say("there is no page: " + err.Error())
	} else {
		s.page = link
		s.report.page(link)
	}
	s.report.ready(func(took float64) { s.printReady(s.dir, took) })
	return nil
}

// wait returns when the user, or a part of the control plane that failed, ends the cluster. The fleet and the scheduler
// are started again.
func (s *session) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case err := <-s.cp.Failed():
		return err
	}
}

// applyFleet makes the pools those of --fleet, and says which others that replaces.
func (s *session) applyFleet(ctx context.Context, admin *rest.Config) error {
	if !s.fleetGiven {
		return nil
	}
	changes, err := fleet.Apply(ctx, admin, s.pools, false)
	if len(changes) > 0 {
		s.report.did("fleet changed: " + strings.Join(changes, ", "))
	}
	return err
}

// link makes the cluster's name stand for a --data folder, once the folder is known to be this cluster's.
func (s *session) link() error {
	root, err := home.Root()
	if err != nil || s.data == "" {
		return err
	}
	return s.dir.Link(root, s.name)
}

// leave writes down that the cluster is stopped, or takes an ephemeral one away.
func (s *session) leave() error {
	if s.ephemeral {
		root, err := home.Root()
		if err != nil {
			return err
		}
		return s.dir.Purge(filepath.Join(root, s.name))
	}
	s.record.PID, s.record.Ready = 0, false
	if s.fleet != nil {
		s.record.Nodes = s.fleet.progress().WantNodes
	}
	return s.dir.Save(s.record)
}
